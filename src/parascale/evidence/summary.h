#pragma once

#include <string>

#include "parascale/evidence/report.h"

namespace parascale::evidence {

/// Where the outputs of write_evidence lie.
struct EvidencePaths {
  std::string evidence, report, tensorboard;
};

/// Renders the end of a run for people: a headline and about ten aligned lines of at most 80 columns (long paths excepted),
/// ending with a line feed. The columns are name, value, detail; `-` for what is absent; labels (fake worker, synthetic data, dry
/// run) come first.
std::string summary_text(const Evidence& evidence, const EvidencePaths& paths);

}  // namespace parascale::evidence
