#pragma once

#include <cstdint>

#include "parascale/base/console.h"
#include "parascale/plan/plan.h"
#include "parascale/run/run.h"

namespace parascale::cli {

/// Shows a training run on the console as it happens: status lines for what counts, a progress line for the rest. *confined to
/// the main thread*
class TrainView final : public run::EventSink {
 public:
  TrainView(Console& console, const plan::RuntimePlan& plan) : console_(console), plan_(plan) {}

  void on_event(const run::EventRecord& event) override;
  void on_metrics(const run::MetricsRecord& metrics) override;

 private:
  void show_started(const run::EventRecord& event);
  void show_evaluation(const run::EventRecord& event);

  Console& console_;
  const plan::RuntimePlan& plan_;
  std::uint64_t failed_samples_ = 0;
  double smoothed_rate_ = 0.0;
};

}  // namespace parascale::cli
