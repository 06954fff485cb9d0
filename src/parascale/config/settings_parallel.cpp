#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kNoModelParallel = "tensor and pipeline parallelism are not part of this product";
constexpr const char* kNoQuantization = "quantization-aware training is not part of this product";

Setting parallel_size(std::string path, int fallback, std::string doc) {
  return {.path = std::move(path),
          .shape = Shape::integer,
          .fallback = fallback,
          .bounds = at_least(1),
          .doc = std::move(doc),
          .status = Status::not_built,
          .why = kNoModelParallel};
}

Setting quantization(std::string name, Shape shape, Json fallback, std::string doc) {
  return {.path = "parascale.quantization." + name,
          .shape = shape,
          .fallback = std::move(fallback),
          .doc = std::move(doc),
          .aliases = {"quantization." + name},
          .status = Status::not_built,
          .why = kNoQuantization};
}

}  // namespace

std::vector<Setting> parallel_settings() {
  return {
      {.path = "parascale.parallel.data_parallel_size",
       .shape = Shape::integer,
       .fallback = 1,
       .bounds = at_least(1),
       .doc = "Number of data-parallel ranks",
       .status = Status::not_built,
       .why = "several ranks come with the back end `native_ddp`",
       .fine_with_backends = {"native_ddp", "fsdp", "deepspeed", "ascend_native"}},
      parallel_size("parascale.parallel.model_parallel_size", 1, "Number of model-parallel ranks"),
      parallel_size("parascale.parallel.tensor_parallel_size", 1, "Number of tensor-parallel ranks"),
      {.path = "parascale.parallel.tensor_parallel_mode",
       .shape = Shape::choice,
       .fallback = "row",
       .choices = {{"row"}, {"column"}},
       .doc = "How a weight matrix is split",
       .status = Status::not_built,
       .why = kNoModelParallel},
      parallel_size("parascale.parallel.pipeline_parallel_size", 1, "Number of pipeline stages"),
      parallel_size("parascale.parallel.pipeline_parallel_chunks", 1, "Micro-batches in the pipeline"),
      parallel_size("parascale.parallel.max_tensor_parallel_size", 8, "Cap for the planner's tensor-parallel size"),
      parallel_size("parascale.parallel.max_pipeline_parallel_size", 16, "Cap for the planner's pipeline size"),
      quantization("enabled", Shape::boolean, false, "Train or calibrate with quantized weights"),
      quantization("mode", Shape::text, "qat", "`qat` or `ptq`"),
      quantization("bits", Shape::integer, 8, "Bits per weight"),
      quantization("scheme", Shape::text, "symmetric", "`symmetric` or `asymmetric`"),
      quantization("per_channel", Shape::boolean, true, "One scale per channel"),
      quantization("observer_type", Shape::text, "minmax", "`minmax` or `moving_average`"),
      quantization("moving_average_ratio", Shape::number, 0.9, "Weight of the past in a moving average"),
      quantization("fuse_modules", Shape::boolean, true, "Fuse neighbouring modules first"),
      quantization("qat_epochs", Shape::integer, 10, "Epochs of quantization-aware training"),
      quantization("calib_batches", Shape::integer, 100, "Batches for calibration"),
      quantization("backend", Shape::text, "fbgemm", "`fbgemm` or `qnnpack`"),
  };
}

}  // namespace parascale::config
