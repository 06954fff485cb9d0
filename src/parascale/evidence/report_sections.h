#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parascale/evidence/report.h"

// The tables of `report.html`, and the wording of figures that report and summary share.
namespace parascale::evidence {

std::string evaluations_table(const Evidence& evidence);
std::string checkpoints_table(const Evidence& evidence);
/// Percentiles of step time, wait and throughput, and CPU seconds by process.
std::string time_tables(const Evidence& evidence);
std::string attempts_table(const Evidence& evidence);
/// Of failures or warnings.
std::string failures_table(const std::vector<FailureRow>& failures);
std::string ledger_table(const Evidence& evidence);
/// The highlights, then every value of the plan, folded.
std::string plan_tables(const Evidence& evidence);
/// Values with their origin: what was set, then the defaults, folded.
std::string config_tables(const Evidence& evidence);

/// The plan on a few lines: (backend, `native`), (device, `cpu x 1`), (hash, ...); what the plan file lacks is left out.
std::vector<std::pair<std::string, std::string>> plan_highlights(const Evidence& evidence);

/// `97.90%` for top1 and top5, `0.3312` for others, `-` for none.
std::string metric_text(std::string_view name, std::optional<double> value);
/// The value of `loss` or of a metric.
std::optional<double> metric_of(const EvaluationRow& row, std::string_view name);
/// `3m12s`.
std::string seconds_text(double seconds);

}  // namespace parascale::evidence
