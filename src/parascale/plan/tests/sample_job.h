#pragma once

#include "parascale/plan/planner.h"

namespace parascale::plan::testing {

/// A job on a machine of 2 cores and 8 GiB that can be planned; tests change one thing and look what follows. The workload is a
/// toy of 1,000 parameters, so that nothing depends on a real model.
struct SampleJob {
  config::ResolvedConfig config;
  Capabilities capabilities;
  Machine machine{
      .host_class = "linux-x86_64", .cores = 2, .memory_bytes = 8ULL << 30, .devices = {"cpu"}, .torch_version = "2.13.0+cpu"};
  DataFacts data{.train_samples = 100, .validation_samples = 30, .train_fingerprint = "aa", .validation_fingerprint = "bb"};

  SampleJob() {
    config.config_path = "configs/toy.yaml";
    config.run_name = "toy";
    config.backend.training_backend = "native";
    auto& training = config.training;
    training.batch_size = 8;
    training.gradient_accumulation_steps = 2;
    training.precision = "fp32";
    training.workload = "toy";
    training.max_steps = 20;
    training.nonfinite = "stop";
    training.lr_schedule = {.type = "cosine", .warmup_steps = 5, .min_ratio = 0.1};
    training.evaluation = {.interval = 10, .metric = "top1", .batch_size = 0};
    config.optimizer.type = "adamw";
    config.data.type = "synthetic";
    config.data.recipe = {.resize = "bilinear", .size = 0, .mean = {0.5}, .std = {0.5}};
    config.runtime.device = "cpu";
    config.runtime.worker = "cpp";
    config.fields = {{.path = "model.hidden_size", .value = Json(8)},
                     {.path = "data.recipe.size", .value = Json(4)},
                     {.path = "models.x", .value = Json(1)}};
    capabilities.backends = {{.name = "native",
                              .built = true,
                              .devices = {"cpu"},
                              .workers = {"cpp", "fake"},
                              .precisions = {"fp32"},
                              .max_world_size = 1},
                             {.name = "fsdp", .built = false, .when = "needs the Python worker"}};
    capabilities.workers = {{.kind = "cpp", .available = true, .program = "/bin/true"},
                            {.kind = "fake", .available = true, .program = "/bin/true"},
                            {.kind = "python", .available = false, .reason = "no Python environment"}};
    capabilities.workloads = {
        {.name = "toy",
         .built = true,
         .workers = {"cpp", "fake"},
         .metrics = {"top1", "loss"},
         .shape = [](const WorkloadRequest& request) -> Result<WorkloadShape> {
           WorkloadShape shape;
           shape.model = request.model;
           shape.preprocessor = request.recipe;
           shape.fields =
               Json::array({Json::object({{"name", "pixel_values"}, {"dtype", "F32"}, {"sample_shape", Json::array({1, 4, 4})}}),
                            Json::object({{"name", "labels"}, {"dtype", "I64"}, {"sample_shape", Json::array()}})});
           shape.channels = 1;
           shape.image_size = 4;
           shape.num_labels = 3;
           shape.parameters = 1000;
           shape.activation_bytes_per_sample = 1U << 20;
           return shape;
         }},
        {.name = "clip", .built = false, .when = "later"}};
  }

  PlanOutcome outcome() const {
    return make_plan({.config = config, .capabilities = capabilities, .machine = machine, .data = data, .run_dir = "runs/toy"});
  }
  /// The plan of a job that can be planned.
  RuntimePlan plan() const {
    PlanOutcome made = outcome();
    PS_CHECK(made.errors.empty(), made.errors.front().message());
    return std::move(made.plan);
  }
};

}  // namespace parascale::plan::testing
