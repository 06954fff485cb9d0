#include "parascale/evidence/evidence.h"

#include <utility>

namespace parascale::evidence {

Result<EvidenceSummary> write_evidence(const std::string& run_dir, FileSystem& files, const Clock& clock) {
  PS_ASSIGN(Evidence evidence, build_evidence(files, run_dir));
  const EvidencePaths paths{.evidence = join_path(run_dir, "evidence.json"),
                            .report = join_path(run_dir, "report.html"),
                            .tensorboard = join_path(run_dir, "tensorboard")};
  PS_TRY(replace_file(files, paths.evidence, evidence.to_json().dump_pretty() + "\n"));
  PS_TRY(replace_file(files, paths.report, render_html(evidence, clock.wall_ns())));
  PS_TRY(make_directories(files, paths.tensorboard));
  PS_TRY(replace_file(files, join_path(paths.tensorboard, tensorboard_file_name(evidence.events)),
                      tensorboard_bytes(evidence.metrics, evidence.events, evidence.labels())));
  std::string text = summary_text(evidence, paths);
  return EvidenceSummary{.evidence = std::move(evidence), .paths = paths, .text = std::move(text)};
}

}  // namespace parascale::evidence
