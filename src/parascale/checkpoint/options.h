#pragma once

#include <cstdint>
#include <string>

#include "parascale/base/json.h"
#include "parascale/base/result.h"

namespace parascale::checkpoint {

/// What the plan says about checkpoints: where, how often, how many stay. An artifact: part of `plan.json`. *thread-compatible*
struct CheckpointOptions {
  static constexpr int kFormatVersion = 1;
  std::string root;                     ///< directory that holds `step-%08d/`
  std::uint64_t interval_steps = 1000;  ///< commit every so many steps; 0 = only the last and the best
  std::uint64_t keep_last = 3;  ///< newest commits that retention keeps; 0 = all. Step 0, the best and pinned ones stay besides
  bool keep_best = true;        ///< what `best.json` points to is pinned

  /// `{root, interval_steps, keep_last, keep_best}`.
  Json to_json() const;
  /// Unknown members are ignored, absent ones keep their default; `root` is required. Errors: json_invalid.
  static Result<CheckpointOptions> from_json(const Json& json);

  friend bool operator==(const CheckpointOptions&, const CheckpointOptions&) = default;
};

}  // namespace parascale::checkpoint
