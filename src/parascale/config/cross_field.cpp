#include "parascale/config/cross_field.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "parascale/base/check.h"

namespace parascale::config {

namespace {

class Checker {
 public:
  explicit Checker(const CrossFieldInput& input) : input_(input), config_(input.config) {}

  std::vector<Error> run() {
    check_length();
    check_schedule();
    check_optimizer();
    check_model();
    check_recipe();
    check_data();
    return std::move(errors_);
  }

 private:
  using Paths = std::vector<std::string>;

  const FieldState& state(const std::string& path) const {
    const auto found = input_.states.find(path);
    PS_CHECK(found != input_.states.end(), "a rule names a known setting: " + path);
    return found->second;
  }
  bool given(const std::string& path) const { return state(path).explicitly_set; }
  bool readable(const Paths& paths) const {
    return std::ranges::none_of(paths, [&](const std::string& path) { return state(path).failed; });
  }

  /// Reports a contradiction between `paths` unless one of them could not be read.
  void contradict(const Paths& paths, std::string message, std::string help) {
    if (!readable(paths)) {
      return;
    }
    Error error = Error(Code::cross_field, std::move(message)).help(std::move(help));
    const auto later = [&](const std::string& a, const std::string& b) { return place_key(a) < place_key(b); };
    const std::string& shown = *std::ranges::max_element(paths, later);
    for (const auto& path : paths) {
      const auto& mark = state(path).mark;
      if (path == shown && mark) {
        error.at(*mark);
      } else if (mark) {
        error.note(fmt::format("`{}` is given at {}:{}:{}", path, mark->file, mark->line, mark->column));
      } else {
        error.note(fmt::format("`{}` has its default", path));
      }
    }
    errors_.push_back(std::move(error));
  }

  std::tuple<bool, std::uint32_t, std::uint32_t> place_key(const std::string& path) const {
    const auto& mark = state(path).mark;
    return mark ? std::tuple(true, mark->line, mark->column) : std::tuple(false, 0U, 0U);
  }

  void missing(const std::string& section, std::string message, std::string help) {
    Error error = Error(Code::missing_setting, std::move(message)).help(std::move(help));
    if (const auto found = input_.sections.find(section); found != input_.sections.end()) {
      error.at(found->second);
    }
    errors_.push_back(std::move(error));
  }

  void check_length() {
    const auto& training = config_.training;
    if (training.max_steps && training.epochs) {
      contradict({"training.max_steps", "training.epochs"},
                 "the length of the run is given twice: `training.max_steps` and `training.epochs`", "keep one of the two");
    }
    if (!training.max_steps && !training.epochs && readable({"training.max_steps", "training.epochs"})) {
      missing("training", "the length of the run is missing: `training.max_steps` or `training.epochs`",
              "add `max_steps: N` (or `epochs: N`) below `training`; both are totals, also after a resume");
    }
  }

  void check_schedule() {
    const auto& training = config_.training;
    if (training.max_steps && training.lr_schedule.warmup_steps > *training.max_steps) {
      contradict({"training.lr_schedule.warmup_steps", "training.max_steps"},
                 fmt::format("the warm-up is longer than the run: {} of {} steps", training.lr_schedule.warmup_steps,
                             *training.max_steps),
                 "shorten the warm-up or train longer");
    }
  }

  void check_optimizer() {
    const auto& optimizer = config_.optimizer;
    const auto foreign = [&](const std::string& field, std::string_view owner) {
      const std::string path = "optimizer." + field;
      if (given(path) && optimizer.type != owner) {
        contradict({path, "optimizer.type"}, fmt::format("the optimizer `{}` has no `{}`", optimizer.type, field),
                   fmt::format("remove `{}`, or set `optimizer.type: {}`", field, owner));
      }
    };
    if (optimizer.type == "adamw" || optimizer.type == "sgd") {
      foreign("betas", "adamw");
      foreign("eps", "adamw");
      foreign("momentum", "sgd");
      foreign("nesterov", "sgd");
    }
    if (optimizer.type == "sgd" && optimizer.nesterov && optimizer.momentum == 0.0) {
      contradict({"optimizer.nesterov", "optimizer.momentum"}, "`optimizer.nesterov` needs a momentum, which is 0",
                 "set `optimizer.momentum`, for example 0.9, or remove `nesterov`");
    }
  }

  void check_model() {
    const auto& model = config_.model;
    if (model.hidden_size % model.num_attention_heads != 0) {
      contradict({"model.hidden_size", "model.num_attention_heads"},
                 fmt::format("`model.hidden_size` is no multiple of `model.num_attention_heads`: {} and {}", model.hidden_size,
                             model.num_attention_heads),
                 "choose a width that the heads divide");
    }
    if (model.image_size % model.patch_size != 0) {
      contradict(
          {"model.image_size", "model.patch_size"},
          fmt::format("`model.image_size` is no multiple of `model.patch_size`: {} and {}", model.image_size, model.patch_size),
          "choose a patch size that divides the image size");
    }
    if (!model.label_names.empty() && std::cmp_not_equal(model.label_names.size(), model.num_labels)) {
      contradict({"model.label_names", "model.num_labels"},
                 fmt::format("`model.label_names` has {} names for {} classes", model.label_names.size(), model.num_labels),
                 "give one name per class, or none");
    }
    if (config_.training.workload == "vit_classifier" && model.type != "vit_classifier") {
      contradict({"training.workload", "model.type"},
                 fmt::format("the workload `vit_classifier` cannot train the model `{}`", model.type),
                 "set `model.type: vit_classifier`, or choose the model's workload");
    }
  }

  void check_recipe() {
    const auto& recipe = config_.data.recipe;
    const auto& model = config_.model;
    if (recipe.size != 0 && recipe.size != model.image_size) {
      contradict({"data.recipe.size", "model.image_size"},
                 fmt::format("pictures and model differ in size: {} and {} pixels", recipe.size, model.image_size),
                 "set both to the same size, or leave `data.recipe.size` out");
    }
    const auto per_channel = [&](const std::string& path, std::size_t count) {
      if (count != 1 && std::cmp_not_equal(count, model.num_channels)) {
        contradict({path, "model.num_channels"},
                   fmt::format("`{}` has {} values for {} channels", path, count, model.num_channels),
                   "give one value, or one per channel");
      }
    };
    per_channel("data.recipe.mean", recipe.mean.size());
    per_channel("data.recipe.std", recipe.std.size());
    if (config_.data.affine.scale[0] > config_.data.affine.scale[1]) {
      contradict({"data.augment.affine.scale"},
                 fmt::format("the range of `data.augment.affine.scale` ends before it begins: {} and {}",
                             config_.data.affine.scale[0], config_.data.affine.scale[1]),
                 "write the smaller number first");
    }
  }

  void check_data() {
    const auto& data = config_.data;
    const bool classifier = config_.training.workload == "vit_classifier";
    if (classifier && data.type != "wds" && data.type != "synthetic") {
      contradict({"data.type", "training.workload"},
                 fmt::format("the workload `vit_classifier` cannot read the data type `{}`", data.type),
                 "use `wds` or `synthetic`");
    }
    if (data.type == "wds" && data.train.empty() && readable({"data.type", "data.train", "training.workload"}) &&
        (classifier || given("data.type"))) {
      missing("data", "the data to train on is missing: `data.train`",
              "add `train: path/to/train-*.tar` below `data`, or set `data.type: synthetic`");
    }
    if (data.type == "wds" && config_.training.evaluation.interval > 0 && data.validation.empty()) {
      contradict({"training.evaluation.interval", "data.validation"},
                 "an evaluation interval is given without data to evaluate on: `data.validation`",
                 "add `validation: path/to/validation-*.tar` below `data`, or remove the interval");
    }
  }

  const CrossFieldInput& input_;
  const ResolvedConfig& config_;
  std::vector<Error> errors_;
};

}  // namespace

std::vector<Error> check_cross_fields(const CrossFieldInput& input) { return Checker(input).run(); }

}  // namespace parascale::config
