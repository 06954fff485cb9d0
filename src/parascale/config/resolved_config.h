#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parascale/base/error.h"
#include "parascale/base/json.h"

namespace parascale::config {

/// One value that a setting had on its way: the last entry of a history is the value in force.
struct Assignment {
  std::string source;  ///< `default`, `configs/a.yaml:12:21`, `--set`, `--resume-step`, ...
  int priority = 0;    ///< 0 default, 40 file, 80 planner, 90 command line; the highest wins, later wins among equals
  Json value;
  std::string reason;  ///< empty, or why a layer changed it
};

/// A setting with its canonical path and everything that was ever assigned to it.
struct ResolvedField {
  std::string path;  ///< `parascale.training.batch_size`
  Json value;
  std::string source;
  bool explicitly_set = false;
  std::vector<Assignment> history;
};

// The sections. Members carry the canonical key's last part; bounds, defaults, aliases and documentation stand in the settings
// tables
// (`settings_*.cpp`), which are the only declaration of each setting.

struct WorkloadSettings {  // parascale.workload.*
  std::string task_type, model_family, target_scale, optimize_for;
};

struct BackendSettings {  // parascale.backend.*
  std::string training_backend;
};

struct LoaderSettings {                                // parascale.data.*
  std::optional<std::int64_t> dataloader_num_workers;  ///< engine threads; unset = planner, 0 = 1
  bool dataloader_drop_last = false;
};

struct LrScheduleSettings {  // training.lr_schedule.*
  std::string type;          ///< constant, linear, cosine
  std::int64_t warmup_steps = 0;
  double min_ratio = 0.0;  ///< lr at the end / peak lr
};

struct EvaluationSettings {     // training.evaluation.*
  std::int64_t interval = 0;    ///< steps; 0 = only at the end
  std::string metric;           ///< top1, top5, loss
  std::int64_t batch_size = 0;  ///< 0 = the training batch size
};

struct TrainingSettings {  // parascale.training.* and training.*
  std::int64_t batch_size = 32;
  std::int64_t gradient_accumulation_steps = 1;
  double learning_rate = 0.001;  ///< parascale.training.learning_rate; aliases optimizer.lr, training.lr, training.learning_rate
  std::string precision;
  std::optional<double> grad_clip_norm;
  std::int64_t log_interval = 100;
  std::int64_t seed = 42;
  double strategy_memory_margin = 0.9;
  std::string checkpoint_save_path;  ///< empty = `<run directory>/checkpoints`
  std::int64_t checkpoint_save_interval = 1000;
  std::int64_t checkpoint_keep_last = 3;  ///< parascale.training.checkpoint_keep_last
  std::string workload;                   ///< training.workload
  std::optional<std::int64_t> max_steps;  ///< total, also after a resume
  std::optional<double> epochs;           ///< total; giving both is an error
  double label_smoothing = 0.0;
  std::string nonfinite;  ///< training.nonfinite: stop, skip
  LrScheduleSettings lr_schedule;
  EvaluationSettings evaluation;
};

struct OptimizerSettings {  // optimizer.*
  std::string type;         ///< adamw, sgd
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0.0;  ///< sgd
  bool nesterov = false;  ///< sgd
};

struct RecipeSettings {           // data.recipe.*
  std::string resize;             ///< bilinear
  std::int64_t size = 0;          ///< 0 = the model's image size
  std::vector<double> mean, std;  ///< one value, or one per channel
};

struct AffineSettings {  // data.augment.affine.*
  double degrees = 0.0;
  std::array<double, 2> scale{1.0, 1.0};
  double translate = 0.0;  ///< fraction of the size
};

struct DataSettings {                          // data.*
  std::string type;                            ///< wds, synthetic
  std::vector<std::string> train, validation;  ///< paths or patterns (one text or a list)
  RecipeSettings recipe;
  AffineSettings affine;
  double max_failure_rate = 0.05;         ///< data.max_failure_rate
  std::int64_t synthetic_samples = 4096;  ///< data.num_samples, for type synthetic
};

struct ModelSettings {  // model.*
  std::string type;
  std::int64_t image_size = 224, patch_size = 16, num_channels = 3, hidden_size = 768, num_hidden_layers = 12,
               num_attention_heads = 12, intermediate_size = 3072, num_labels = 2;
  std::string hidden_act;  ///< gelu
  double layer_norm_eps = 1e-12, initializer_range = 0.02, hidden_dropout_prob = 0.0, attention_probs_dropout_prob = 0.0;
  bool qkv_bias = true;
  std::string init_from;                 ///< empty, or a model directory with model.safetensors
  std::vector<std::string> label_names;  ///< empty = LABEL_0 ...
};

struct RuntimeSettings {  // runtime.*
  std::string device;     ///< auto, cpu, cuda, npu (alias runtime.accelerator)
  std::string worker;     ///< auto, cpp, python, fake
  std::string run_dir;    ///< empty = `runs/<stem>`
  std::optional<std::int64_t> intra_op_threads;
  std::int64_t hang_deadline_seconds = 300;
  std::int64_t slots = 4;  ///< batch slots of the ring
};

/// What was asked: every setting typed, with the origin and history of each value. Written to `config.resolved.json`.
/// *thread-compatible*
struct ResolvedConfig {
  static constexpr int kFormatVersion = 1;
  std::string config_path;          ///< as given; empty when there was no file
  std::string run_name;             ///< file stem with `-` for `_`
  std::int64_t schema_version = 0;  ///< 0 = a file without one (the original's), read like 1
  WorkloadSettings workload;
  BackendSettings backend;
  LoaderSettings loader;
  TrainingSettings training;
  OptimizerSettings optimizer;
  DataSettings data;
  ModelSettings model;
  RuntimeSettings runtime;
  std::vector<ResolvedField> fields;  ///< every known setting, in the order of the tables
  std::vector<Error> warnings;
  std::size_t override_count = 0;  ///< values given on the command line

  /// The field of a canonical path, or nullptr.
  const ResolvedField* find(std::string_view path) const;
  /// The document of `config.resolved.json`: `format_version`, `config_path`, `run_name`, `override_count`, `warnings` [{code,
  /// message, file, line, column}] and `fields` [{path, value, source, explicitly_set, history [{source, priority, value,
  /// reason}]}], history oldest first.
  Json to_json() const;
};

/// Reads what `to_json` wrote; warnings are not restored. Fields this version does not know are ignored.
/// Errors: artifact_version for another major format, json_invalid for a document that is none of ours.
Result<ResolvedConfig> resolved_config_from_json(const Json& document);

}  // namespace parascale::config
