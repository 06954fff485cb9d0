// One training step of the quickstart's ViT through the worker's own Trainer: what benchmarks/peers/vit_step.py does in plain
// PyTorch.
//
// usage: vit_step_benchmark [--name value]...   size patch channels width depth heads mlp classes batch threads steps rounds
// warmup Prints one JSON line: images per second and milliseconds per step (median of the rounds), and where the time went.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "parascale/base/clock.h"
#include "parascale/base/text.h"
#include "parascale_torch/engine/process.h"
#include "parascale_torch/engine/trainer.h"

namespace {

using namespace parascale;
using namespace parascale::native;

std::map<std::string, std::int64_t> options = {{"size", 28},   {"patch", 7},  {"channels", 1}, {"width", 96}, {"depth", 4},
                                               {"heads", 4},   {"mlp", 192},  {"classes", 10}, {"batch", 64}, {"threads", 1},
                                               {"steps", 100}, {"rounds", 5}, {"warmup", 20}};

Status read_options(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const auto value = i + 1 < argc ? parse_int64(argv[i + 1]) : std::nullopt;
    const auto found = name.starts_with("--") ? options.find(name.substr(2)) : options.end();
    if (found == options.end() || !value) {
      return Error(Code::usage, fmt::format("unknown option `{}`", name));
    }
    found->second = *value;
  }
  return {};
}

Status run() {
  RankPlan plan;
  plan.model.image_size = options["size"];
  plan.model.patch_size = options["patch"];
  plan.model.num_channels = options["channels"];
  plan.model.hidden_size = options["width"];
  plan.model.num_hidden_layers = options["depth"];
  plan.model.num_attention_heads = options["heads"];
  plan.model.intermediate_size = options["mlp"];
  plan.model.num_labels = options["classes"];
  plan.optimizer = OptimizerConfig{.weight_decay = 0.05};
  plan.label_smoothing = 0.05;
  plan.grad_clip_norm = 1.0;
  at::set_num_threads(static_cast<int>(options["threads"]));
  Trainer trainer(plan, 42, 0, [](auto, auto, auto) {});

  const std::int64_t rows = options["batch"];
  Batch batch;
  batch.valid = rows;
  batch.pixels =
      at::empty({rows, plan.model.num_channels, plan.model.image_size, plan.model.image_size}, at::TensorOptions(at::kFloat))
          .normal_();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i) % plan.model.num_labels;
  }
  batch.labels = labels;

  std::uint64_t step = 0;
  StepReport last;
  StepReport sums;
  const auto one_step = [&]() -> Status {
    PS_TRY(trainer.begin({.step = ++step, .learning_rate = 1.5e-3, .planned_denominator = static_cast<double>(rows)}));
    PS_TRY(trainer.micro_step(0, batch));
    PS_ASSIGN(last, trainer.finish(static_cast<double>(rows)));
    sums.forward_ns += last.forward_ns;
    sums.backward_ns += last.backward_ns;
    sums.optimizer_ns += last.optimizer_ns;
    return {};
  };
  for (std::int64_t i = 0; i < options["warmup"]; ++i) {
    PS_TRY(one_step());
  }
  sums = {};
  std::vector<double> rates;
  std::vector<double> cpu_rates;
  for (std::int64_t round = 0; round < options["rounds"]; ++round) {
    const std::int64_t begun = real_clock().monotonic_ns();
    const std::int64_t cpu_begun = process_cpu_ns();
    for (std::int64_t i = 0; i < options["steps"]; ++i) {
      PS_TRY(one_step());
    }
    const double seconds = static_cast<double>(real_clock().monotonic_ns() - begun) * 1e-9;
    rates.push_back(static_cast<double>(options["steps"] * rows) / seconds);
    cpu_rates.push_back(static_cast<double>(options["steps"] * rows) /
                        (static_cast<double>(process_cpu_ns() - cpu_begun) * 1e-9));
  }
  std::ranges::sort(rates);
  std::ranges::sort(cpu_rates);
  const double rate = rates[rates.size() / 2];
  const double steps = static_cast<double>(options["steps"] * options["rounds"]) * 1e6;
  fmt::print(
      "{{\"name\":\"parascale\",\"images_per_second\":{:.1f},\"images_per_cpu_second\":{:.1f},\"step_ms\":{:.3f},\"forward_ms\":{"
      ":.3f},\"backward_ms\":{:.3f},\"optimizer_ms\":{:.3f}}}\n",
      rate, cpu_rates[rates.size() / 2], 1000.0 * static_cast<double>(rows) / rate, static_cast<double>(sums.forward_ns) / steps,
      static_cast<double>(sums.backward_ns) / steps, static_cast<double>(sums.optimizer_ns) / steps);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  Status status = read_options(argc, argv);
  if (status.ok()) {
    status = run();
  }
  if (!status.ok()) {
    fmt::print(stderr, "{}", render(status.error()));
    return 2;
  }
  return 0;
}
