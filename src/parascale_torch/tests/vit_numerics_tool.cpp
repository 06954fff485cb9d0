// Runs a job that tests/oracles/vit_numerics.py describes through the same Trainer as the worker and writes what PyTorch shall be
// compared with.
//
// usage: vit_numerics_tool JOB.json OUT
//   JOB: {plan, seed, tensors (as in `load`), pixels, labels (raw files: f32, i64), batch, micro_steps, learning_rates,
//   denominator} OUT.bin holds, one behind the other as f32, the entries that OUT.json lists as [{name, shape, offset}]: `logits`
//   of the first batch, `grad.<tensor>` of the first step, `after.<tensor>` at the end, `loss` and `grad_norm` of every step.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale_torch/engine/trainer.h"
#include "parascale_torch/state/transfer.h"

namespace {

using namespace parascale;
using namespace parascale::native;

class Output {
 public:
  explicit Output(std::string stem) : stem_(std::move(stem)), values_(stem_ + ".bin", std::ios::binary) {}
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor dense = tensor.detach().to(at::kFloat).contiguous();
    entries_.push_back(Json::object({{"name", name}, {"shape", Json::array_of(dense.sizes())}, {"offset", offset_}}));
    const void* raw = dense.const_data_ptr();
    values_.write(static_cast<const char*>(raw), static_cast<std::streamsize>(dense.nbytes()));
    offset_ += dense.nbytes();
  }
  void close() { std::ofstream(stem_ + ".json") << entries_.dump(); }

 private:
  std::string stem_;
  std::ofstream values_;
  Json entries_ = Json::array();
  std::uint64_t offset_ = 0;
};

void add_parts(Output& out, const char* prefix, const Parameter& parameter, const at::Tensor& storage) {
  for (const auto& part : parameter.parts) {
    out.add(prefix + part.name, storage.narrow(0, part.row, part.rows));
  }
}

Status run(const std::string& job_path, const std::string& out_stem) {
  PS_ASSIGN(const auto text, read_file(real_file_system(), job_path));
  PS_ASSIGN(const Json job, parse_json(text, job_path));
  PS_ASSIGN(const Json plan_json, job.get<Json>("plan"));
  PS_ASSIGN(const auto plan, RankPlan::from_json(plan_json));
  PS_ASSIGN(const auto batch, job.get<std::int64_t>("batch"));
  PS_ASSIGN(const auto micro_steps, job.get<std::uint32_t>("micro_steps"));
  PS_ASSIGN(const auto denominator, job.get<double>("denominator"));
  PS_ASSIGN(const auto pixels_path, job.get<std::string>("pixels"));
  PS_ASSIGN(const auto labels_path, job.get<std::string>("labels"));
  PS_ASSIGN(std::string pixels, read_file(real_file_system(), pixels_path));
  PS_ASSIGN(std::string labels, read_file(real_file_system(), labels_path));
  PS_ASSIGN(const Json rates, job.get<Json>("learning_rates"));
  PS_ASSIGN(const Json tensors, job.get<Json>("tensors"));

  at::set_num_threads(plan.intra_op_threads);
  Trainer trainer(plan, 1, 0, [](auto, auto, auto) {});
  PS_ASSIGN(const auto report, load_tensors(trainer.inventory(), tensors, false));
  fmt::print(stderr, "loaded; missing {}, unexpected {}, mismatched {}\n", report.missing.size(), report.unexpected.size(),
             report.mismatched.size());

  Output out(out_stem);
  const auto& model = plan.model;
  const std::int64_t image = model.num_channels * model.image_size * model.image_size;
  void* raw_labels = labels.data();
  void* raw_pixels = pixels.data();
  std::int64_t at_row = 0;
  const auto next_batch = [&] {
    Batch next;
    next.valid = batch;
    next.pixels = at::from_blob(static_cast<float*>(raw_pixels) + at_row * image,
                                {batch, model.num_channels, model.image_size, model.image_size}, at::TensorOptions(at::kFloat));
    next.labels = {static_cast<const std::int64_t*>(raw_labels) + at_row, static_cast<std::size_t>(batch)};
    at_row += batch;
    return next;
  };
  std::vector<float> losses;
  std::vector<float> norms;
  for (std::size_t step = 0; step < rates.items().size(); ++step) {
    PS_TRY(
        trainer.begin({.step = step + 1, .learning_rate = *rates.items()[step].to_double(), .planned_denominator = denominator}));
    for (std::uint32_t k = 0; k < micro_steps; ++k) {
      const Batch micro = next_batch();
      if (step == 0 && k == 0) {
        out.add("logits", trainer.predict(micro.pixels));
      }
      PS_TRY(trainer.micro_step(k, micro));
    }
    if (step == 0) {
      for (const auto& parameter : trainer.model().parameters()) {
        add_parts(out, "grad.", parameter, parameter.value.grad());
      }
    }
    PS_ASSIGN(const auto done, trainer.finish(denominator));
    losses.push_back(static_cast<float>(done.loss_sum / static_cast<double>(done.samples)));
    norms.push_back(static_cast<float>(done.grad_norm));
  }
  for (const auto& parameter : trainer.model().parameters()) {
    add_parts(out, "after.", parameter, parameter.value);
  }
  out.add("loss", at::tensor(losses));
  out.add("grad_norm", at::tensor(norms));
  out.close();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: vit_numerics_tool JOB.json OUT\n");
    return 2;
  }
  const Status status = run(argv[1], argv[2]);
  if (!status.ok()) {
    fmt::print(stderr, "{}", render(status.error()));
    return 1;
  }
  return 0;
}
