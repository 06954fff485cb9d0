#pragma once

#include <cstdint>
#include <string>

#include "parascale/evidence/report.h"

namespace parascale::evidence {

/// Renders `report.html`: one self-contained page (inline CSS and SVG, no script, nothing loaded from anywhere), light and dark.
/// Every text of the run is escaped. `rendered_wall_ns` is printed in the footer. Deterministic otherwise.
std::string render_html(const Evidence& evidence, std::int64_t rendered_wall_ns);

}  // namespace parascale::evidence
