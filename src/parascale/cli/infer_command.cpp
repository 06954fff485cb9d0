#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "parascale/base/text.h"
#include "parascale/checkpoint/checkpoint.h"
#include "parascale/cli/context.h"
#include "parascale/data/data.h"
#include "parascale/workloads/workloads.h"

namespace parascale::cli {

namespace {

struct ScoredLabel {
  std::size_t index = 0;
  double score = 0.0;
};

/// Softmax over all logits, then the `count` highest; ties go to the lower index.
std::vector<ScoredLabel> top(const std::vector<float>& logits, std::size_t count) {
  const double highest = *std::ranges::max_element(logits);
  std::vector<ScoredLabel> scores;
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    scores.push_back({.index = i, .score = std::exp(static_cast<double>(logits[i]) - highest)});
    sum += scores.back().score;
  }
  for (auto& score : scores) {
    score.score /= sum;
  }
  std::ranges::stable_sort(scores, std::ranges::greater{}, &ScoredLabel::score);
  scores.resize(std::min(count, scores.size()));
  return scores;
}

Result<Json> read_text(const checkpoint::OpenedCheckpoint& opened, const std::string& name) {
  const auto found = opened.texts.find(name);
  if (found == opened.texts.end()) {
    return Error(Code::state_mismatch, fmt::format("`{}` holds no `{}`", opened.directory, name))
        .help("use a checkpoint or a Hugging Face model directory");
  }
  return parse_json(found->second, name);
}

/// The path as a pattern that matches only itself: the engine expands patterns, and a file may be called `a[1].png`.
std::string as_pattern(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (std::string_view("*?[]{}\\,~").find(c) != std::string_view::npos) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

/// A plan of mode infer, made from the model directory alone.
Result<plan::RuntimePlan> infer_plan(const workloads::DirectoryModel& model, const plan::Machine& machine,
                                     std::uint32_t batch_size) {
  plan::RuntimePlan plan;
  plan.mode = "infer";
  plan.name = "infer";
  plan.device = {.kind = "cpu", .count = 1};
  plan.backend = {.name = "native", .worker = "cpp", .world_size = 1, .precision = "fp32"};
  plan.communication = {.backend = "none", .ddp_hook = "none"};
  plan.batch = {.per_rank = batch_size, .accumulation = 1, .slots = 3, .fields = model.shape.fields};
  plan.workload = {.name = model.workload,
                   .model = model.shape.model,
                   .preprocessor = model.shape.preprocessor,
                   .parameters = model.shape.parameters};
  plan.optimizer = {.type = "none"};
  plan.training = {.nonfinite = "stop"};
  plan.threads = {.cores = machine.cores, .engine = 1, .intra_op = std::max(1U, machine.cores - 1)};
  plan.schedule.lr.type = "constant";
  auto& data = plan.data.options;
  data.type = data::DatasetType::files;
  data.recipe.size = model.shape.image_size;
  data.recipe.channels = model.shape.channels;
  data.num_labels = model.shape.num_labels;
  data.max_failure_rate = 1.0;
  data.threads = plan.threads.engine;
  data.recipe.mean.clear();
  data.recipe.std.clear();
  for (const char* key : {"mean", "std"}) {
    PS_ASSIGN(const Json values, model.recipe.get<Json>(key));
    for (const auto& value : values.items()) {
      (std::string_view(key) == "mean" ? data.recipe.mean : data.recipe.std).push_back(value.to_double().value_or(0.5));
    }
  }
  return plan;
}

/// Renders answers as they come: JSON lines, a table for people, or both.
class InferView {
 public:
  InferView(Context& context, const InferCommand& command, const std::vector<std::string>& paths,
            const std::vector<std::string>& labels)
      : context_(context), command_(command), paths_(paths), labels_(labels) {
    for (const auto& path : paths_) {
      width_ = std::max(width_, path.size());
    }
  }

  void show(const run::Prediction& prediction) {
    const std::string& path = paths_.at(prediction.id);
    Json line = Json::object({{"path", path}});
    if (!prediction.error.empty()) {
      line["error"] = prediction.error;
      row(path, fmt::format("- unreadable: {}", prediction.error));
    } else {
      std::string cells;
      Json list = Json::array();
      for (const auto& [index, score] : top(prediction.logits, command_.top_k)) {
        const std::string& label = labels_.at(index);
        list.push_back(Json::object({{"label", label}, {"index", index}, {"score", score}}));
        if (list.items().size() <= 3) {
          cells += fmt::format("{:<12} {:.4f}  ", label, score);
        }
      }
      line["top"] = std::move(list);
      line["logits"] = Json::array_of(std::vector<double>(prediction.logits.begin(), prediction.logits.end()));
      row(path, cells);
    }
    if (!command_.output.empty()) {
      lines_ += line.dump() + "\n";
    }
    if (context_.json()) {
      context_.console.data(line.dump() + "\n");
    }
  }

  Status finish() {
    if (command_.output.empty()) {
      return {};
    }
    PS_TRY(make_directories(context_.files, parent_path(command_.output)));
    return replace_file(context_.files, command_.output, lines_);
  }

 private:
  void row(const std::string& path, std::string_view cells) {
    if (!context_.json()) {
      context_.console.data(fmt::format("{:<{}}  {}\n", path, width_, trim(cells)));
    }
  }

  Context& context_;
  const InferCommand& command_;
  const std::vector<std::string>& paths_;
  const std::vector<std::string>& labels_;
  std::size_t width_ = 0;
  std::string lines_;
};

/// A directory for the children's logs that is gone afterwards.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const char* base = std::getenv("TMPDIR");
    path_ = join_path(base != nullptr ? base : "/tmp", "parascale-infer-XXXXXX");
    if (mkdtemp(path_.data()) == nullptr) {
      path_ = ".";
    }
  }
  ~ScratchDirectory() {
    if (path_ != "." && !keep_) {
      (void)remove_tree(real_file_system(), path_);  // nothing in it matters any more
    }
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }
  /// Leaves it: an error names the logs in it.
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};

Result<int> run_infer(Context& context, const InferCommand& command) {
  PS_ASSIGN(const auto resolved, checkpoint::resolve_reference(context.files, command.checkpoint));
  for (const auto& skipped : resolved.skipped) {
    context.console.status("Skipped", fmt::format("{}: {}", skipped.path, skipped.reason.message()));
  }
  PS_ASSIGN(const auto opened, checkpoint::open_for_load(context.files, resolved.directory, checkpoint::LoadPart::model));
  context.console.status("Loading", resolved.description);
  PS_ASSIGN(const Json model_json, read_text(opened, "config.json"));
  PS_ASSIGN(const Json preprocessor, read_text(opened, "preprocessor_config.json"));
  PS_ASSIGN(const auto model, workloads::read_model_directory(model_json, preprocessor));
  PS_ASSIGN(const auto paths, data::expand_paths(context.files, command.inputs));
  PS_ASSIGN(auto plan, infer_plan(model, machine(context), command.batch_size));
  for (const auto& path : paths) {
    plan.data.options.infer.push_back(as_pattern(path));
  }
  ScratchDirectory scratch;
  InferView view(context, command, paths, model.labels);
  auto answered = run::infer({.plan = plan,
                              .paths = run::RunPaths{scratch.path()},
                              .programs = programs(context, "cpp"),
                              .checkpoint = opened,
                              .inputs = paths.size(),
                              .on_prediction = [&](const run::Prediction& p) { view.show(p); }});
  if (!answered.ok()) {
    scratch.keep();
    return answered.error();
  }
  const run::InferOutcome outcome = std::move(answered).value();
  PS_TRY(view.finish());
  const auto latency = run::percentiles_of(outcome.batch_latency_ms);
  std::string timing =
      latency.count > 0 ? fmt::format("; batch of {}: p50 {:.1f} ms, p99 {:.1f} ms", command.batch_size, latency.p50, latency.p99)
                        : "";
  context.console.status("Classified",
                         fmt::format("{} in {:.2f} s{}", format_count(outcome.answered, "picture"), outcome.seconds, timing));
  if (outcome.failed > 0) {
    return Error(Code::inputs_unreadable, fmt::format("{} of {} inputs cannot be read", outcome.failed, paths.size()))
        .help("each is named in the output with its reason");
  }
  return 0;
}

}  // namespace

int infer(Context& context, const InferCommand& command) {
  const auto exit = run_infer(context, command);
  return exit.ok() ? *exit : report_error(context, exit.error());
}

}  // namespace parascale::cli
