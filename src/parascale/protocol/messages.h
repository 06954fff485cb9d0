#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/ids.h"
#include "parascale/base/json.h"
#include "parascale/protocol/dtype.h"

// The messages whose content is used by more than one program, as structs with `to_json` / `from_json`. Unknown members are
// ignored; `from_json` fails with protocol_violation or json_invalid. 64-bit hashes travel as hex strings.

namespace parascale::protocol {

/// First message of both sides.
struct Hello {
  std::string protocol;  ///< `major.minor`
  std::string role;      ///< `agent`, `engine`, `cpp`, `python`, `fake`
  std::int64_t pid = 0;
  std::string torch;  ///< version, or empty
  Json capabilities;

  Json to_json() const;
  static Result<Hello> from_json(const Json& json);
};
/// Succeeds when `hello` speaks our major version. Errors: version_mismatch.
Status check_version(const Hello& hello);

/// One entry of the state inventory in `ready`.
struct StateEntry {
  std::string name;  ///< as in the saved file: `vit.layernorm.weight`, `exp_avg.vit.layernorm.weight`
  std::string kind;  ///< param, buffer, moment, ema, scaler
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> global_shape;
  bool trainable = false;
  std::string group;
  std::string alias_of;  ///< empty, or the name of the tensor that shares the storage

  Json to_json() const;
  static Result<StateEntry> from_json(const Json& json);
};

/// One additive term of a step or an evaluation: its mean is sum / weight.
struct Term {
  std::string name;
  double sum = 0.0;
  double weight = 0.0;
};

struct StepDone {
  Step step;
  std::vector<Term> terms;
  double grad_norm = 0.0;  ///< like a term's sum, null in JSON when it is not finite; read as NaN
  bool skipped = false;
  std::map<std::string, std::int64_t> times_ns;  ///< wait, h2d, forward, backward, comm, optimizer
  std::uint64_t rss_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::vector<std::string> no_grad;  ///< audit: trainable parameters without gradient

  Json to_json() const;
  static Result<StepDone> from_json(const Json& json);
};

/// The agent's order to the engine to fill one slot; at the same time the credit for it.
struct Fill {
  std::uint32_t slot = 0;
  std::string split;             ///< train, validation, infer
  Step step;                     ///< 0 outside training
  std::uint32_t micro_step = 0;  ///< in evaluation: the batch number
  Rank rank;
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;  ///< position in the epoch's order
  std::uint32_t count = 0;

  Json to_json() const;
  static Result<Fill> from_json(const Json& json);
};

/// A sample that could not be read and what took its place.
struct SampleFailure {
  SampleId id;
  std::string reason;
  std::optional<SampleId> replacement;

  Json to_json() const;
  static Result<SampleFailure> from_json(const Json& json);
};

struct Filled {
  std::uint32_t slot = 0;
  std::string split;
  Step step;
  std::uint32_t micro_step = 0;
  std::uint32_t valid = 0;
  std::uint32_t replaced = 0;  ///< rows that hold another sample than their position says
  std::vector<SampleFailure> failures;
  std::map<std::string, std::int64_t> times_ns;  ///< read_ns, decode_ns, ... without the suffix
  std::string batch_hash;
  std::int64_t cpu_ns = 0;

  Json to_json() const;
  static Result<Filled> from_json(const Json& json);
};

/// A rank's last words.
struct WorkerError {
  std::string error_class;  ///< oom, nan, collective, data, internal
  std::string phase;
  std::uint64_t step = 0;
  std::uint32_t micro_step = 0;
  std::string message;
  std::string stack;

  Json to_json() const;
  static Result<WorkerError> from_json(const Json& json);
};

/// `region {name, bytes, layout}` with one descriptor.
Json region_message(std::string_view name, std::uint64_t bytes, Json layout = Json());

}  // namespace parascale::protocol
