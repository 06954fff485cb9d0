#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parascale/protocol/protocol.h"

namespace parascale::fake {

/// A fault to be played at a step: `die@5`, `exit@5`, `hang@5`, `nan@5`, `error@5`, or at once: `version`, `no_grad`.
struct Fault {
  std::string kind;
  std::uint64_t step = 0;
};
std::vector<Fault> parse_faults(const std::string& text);

/// A rank without torch: it obeys the whole worker protocol and trains nothing. Its state is 64 numbers that depend on every
/// batch it was given, so that a lost, repeated or reordered step shows in the checkpoint. Labelled `fake` in every output.
/// *confined to one thread*
class FakeRank {
 public:
  FakeRank(protocol::Channel channel, std::vector<Fault> faults);
  /// Serves until `stop` or the end of the socket; returns the exit code.
  int serve();

 private:
  Status handle(protocol::Frame frame);
  Status on_region(protocol::Frame frame);
  Status on_init(const Json& message);
  Status on_load(const Json& message);
  Status on_step(const Json& message);
  Status on_micro(const Json& message);
  Status on_finish(const Json& message);
  Status on_eval(const Json& message, bool infer);
  Status on_snapshot(const Json& message);
  Status send(const Json& message) { return channel_.send(message); }
  void play(std::string_view kind, std::uint64_t step);
  std::span<float> tensor(const std::string& name);

  protocol::Channel channel_;
  std::vector<Fault> faults_;
  std::map<std::string, protocol::Region> regions_;
  std::optional<protocol::SlotLayout> layout_;
  std::optional<protocol::ResultsLayout> results_;
  std::optional<protocol::PulseWriter> pulse_;
  std::map<std::string, std::vector<float>> state_;
  std::array<float, 64> gradient_{};
  double lr_ = 0.0;
  std::uint64_t step_ = 0;
  double loss_sum_ = 0.0;
  double weight_ = 0.0;
  bool audit_ = false;
  bool stopped_ = false;
};

}  // namespace parascale::fake
