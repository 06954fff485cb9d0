#include "parascale/cli/train_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "parascale/base/text.h"

namespace parascale::cli {

namespace {

constexpr std::uint64_t kShownFailures = 5;

std::string text_of(const Json& details, std::string_view key) {
  const Json* value = details.find(key);
  return value == nullptr ? "-" : value->to_string() != nullptr ? *value->to_string() : value->dump();
}

double number_of(const Json& details, std::string_view key) {
  const Json* value = details.find(key);
  return value != nullptr ? value->to_double().value_or(0.0) : 0.0;
}

std::uint64_t step_of(const run::EventRecord& event) { return event.step ? event.step->value : 0; }

}  // namespace

void TrainView::show_started(const run::EventRecord& event) {
  if (const Json* skipped = event.details.find("skipped_checkpoints")) {
    for (const auto& item : skipped->items()) {
      console_.status("Skipped", fmt::format("{}: {}", text_of(item, "path"), text_of(item, "reason")));
    }
  }
  if (const Json* changes = event.details.find("changes")) {
    for (const auto& change : changes->items()) {
      console_.status("Changed", change.to_string() != nullptr ? *change.to_string() : "");
    }
  }
  if (const Json* from = event.details.find("resumed_from")) {
    console_.status("Resuming", fmt::format("{} from step {} ({})", plan_.name, step_of(event), text_of(*from, "path")));
  } else {
    console_.status("Starting",
                    fmt::format("{}: {} of {} on {} ({} worker)", plan_.name, format_count(plan_.schedule.max_steps, "step"),
                                plan_.batch.global(plan_.backend.world_size), plan_.device.kind, plan_.backend.worker));
  }
}

void TrainView::show_evaluation(const run::EventRecord& event) {
  const std::uint64_t left_out = static_cast<std::uint64_t>(number_of(event.details, "left_out"));
  console_.status("Evaluated",
                  fmt::format("step {}: {} {:.4f} on {}{}{}", step_of(event), text_of(event.details, "metric"),
                              number_of(event.details, "value"),
                              format_count(static_cast<std::uint64_t>(number_of(event.details, "samples")), "sample"),
                              left_out > 0 ? fmt::format(", {} left out", left_out) : "",
                              text_of(event.details, "improved") == "true" ? " (best so far)" : ""));
}

void TrainView::on_event(const run::EventRecord& event) {
  const Json& details = event.details;
  if (event.name == run::event::started) {
    show_started(event);
  } else if (event.name == run::event::worker_ready) {
    console_.status("Ready", fmt::format("rank 0 in {:.1f} s: {} parameters, {} of state", number_of(details, "startup_seconds"),
                                         format_thousands(static_cast<std::uint64_t>(number_of(details, "parameters"))),
                                         format_bytes(static_cast<std::uint64_t>(number_of(details, "state_bytes")))));
  } else if (event.name == run::event::eval) {
    show_evaluation(event);
  } else if (event.name == run::event::checkpoint_committed) {
    console_.status("Committed",
                    fmt::format("step {} ({}, {}): {}", step_of(event), text_of(details, "reason"),
                                format_bytes(static_cast<std::uint64_t>(number_of(details, "bytes"))), text_of(details, "path")));
  } else if (event.name == run::event::signal) {
    console_.status("Stopping", fmt::format("{}: {}", text_of(details, "signal"), text_of(details, "action")));
  } else if (event.name == run::event::sample_failed) {
    if (++failed_samples_ <= kShownFailures) {
      console_.status("Unreadable", fmt::format("{} sample {}: {}", text_of(details, "split"), text_of(details, "id"),
                                                text_of(details, "reason")));
    } else if (failed_samples_ == kShownFailures + 1) {
      console_.status("Unreadable", "more samples; all of them stand in evidence.json");
    }
  } else if (event.name == "audit") {
    console_.status("Audit", fmt::format("trainable parameters without gradient: {}", text_of(details, "no_grad")));
  } else if (event.name == "warning") {
    console_.status("Warning", fmt::format("{} [{}]", text_of(details, "message"), text_of(details, "code")));
  }
}

void TrainView::on_metrics(const run::MetricsRecord& metrics) {
  if (metrics.kind != run::MetricsKind::train) {
    return;
  }
  const double rate = metrics.rates.end_to_end_images_per_second.value_or(0.0);
  constexpr double kSmoothing = 0.05;
  smoothed_rate_ = smoothed_rate_ > 0.0 ? smoothed_rate_ + kSmoothing * (rate - smoothed_rate_) : rate;
  // A terminal is redrawn at every step; elsewhere a line is printed at the log interval.
  if (!console_.stderr_is_terminal() && metrics.step.value % std::max<std::uint64_t>(1, plan_.schedule.log_interval) != 0) {
    return;
  }
  const double samples_left =
      static_cast<double>(plan_.schedule.max_steps - metrics.step.value) * plan_.batch.global(plan_.backend.world_size);
  const auto left = std::chrono::duration<double>(smoothed_rate_ > 0.0 ? samples_left / smoothed_rate_ : 0.0);
  console_.progress("Training",
                    fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  {:.0f} images/s  {} left", metrics.step.value,
                                plan_.schedule.max_steps, metrics.loss.value_or(0.0), metrics.lr.value_or(0.0), smoothed_rate_,
                                format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(left))),
                    std::chrono::seconds(0));
}

}  // namespace parascale::cli
