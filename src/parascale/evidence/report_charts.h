#pragma once

#include <string>
#include <vector>

#include "parascale/evidence/report.h"

namespace parascale::evidence {

/// Draws the plots of a report as `<svg>` elements: loss, accuracy, learning rate, gradient norm, throughput, step time, its
/// histogram, wait for data. Resumes are dashed lines at the step they went on from. A plot whose values the run has not is left
/// out. Deterministic.
std::vector<std::string> render_charts(const Evidence& evidence);

}  // namespace parascale::evidence
