#include "parascale/base/check.h"
#include "parascale/plan/planner.h"

namespace parascale::plan {

data::DataOptions make_data_options(const config::ResolvedConfig& config, const WorkloadShape& shape) {
  const auto type = data::dataset_type_from_name(config.data.type);
  PS_CHECK(type.has_value(), "the config's dataset types are the data module's");
  const auto& affine = config.data.affine;
  const bool augments = affine.degrees != 0.0 || affine.translate != 0.0 || affine.scale[0] != 1.0 || affine.scale[1] != 1.0;
  return {.type = *type,
          .train = config.data.train,
          .validation = config.data.validation,
          .recipe = {.resize = data::ResizeFilter::bilinear,
                     .size = config.data.recipe.size > 0 ? static_cast<std::uint32_t>(config.data.recipe.size) : shape.image_size,
                     .channels = shape.channels,
                     .mean = config.data.recipe.mean,
                     .std = config.data.recipe.std},
          .affine = augments ? std::optional(
                                   data::Affine{.degrees = affine.degrees, .scale = affine.scale, .translate = affine.translate})
                             : std::nullopt,
          .synthetic = {.samples = static_cast<std::uint64_t>(config.data.synthetic_samples)},
          .seed = static_cast<std::uint64_t>(config.training.seed),
          .threads = 1,
          .max_failure_rate = config.data.max_failure_rate,
          .num_labels = shape.num_labels};
}

}  // namespace parascale::plan
