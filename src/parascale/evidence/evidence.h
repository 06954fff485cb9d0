#pragma once

// Front door of the evidence module: what commands include.

#include <string>

#include "parascale/base/clock.h"
#include "parascale/base/file_system.h"
#include "parascale/base/result.h"
#include "parascale/evidence/report.h"
#include "parascale/evidence/report_html.h"
#include "parascale/evidence/summary.h"
#include "parascale/evidence/tensorboard.h"

namespace parascale::evidence {

/// What write_evidence made.
struct EvidenceSummary {
  Evidence evidence;
  EvidencePaths paths;
  std::string text;  ///< summary_text: for the end of a run
};

/// Reads the records of `run_dir` and writes `evidence.json`, `report.html` and `tensorboard/events.out.tfevents.*` there, each
/// atomically and replacing what an earlier call wrote. Reads the clock only for the footer of the report. Errors: those of
/// build_evidence; io_failed while writing.
Result<EvidenceSummary> write_evidence(const std::string& run_dir, FileSystem& files, const Clock& clock);

}  // namespace parascale::evidence
