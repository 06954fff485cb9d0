#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "parascale/workloads/workloads.h"

namespace parascale::workloads {

namespace {

struct VitSize {
  std::uint64_t image = 0, patch = 0, channels = 0, width = 0, layers = 0, heads = 0, mlp = 0, labels = 0;

  std::uint64_t tokens() const { return (image / patch) * (image / patch) + 1; }
};

Result<VitSize> read_size(const Json& model, std::uint64_t labels) {
  VitSize size{.labels = labels};
  PS_ASSIGN(size.image, model.get<std::uint64_t>("image_size"));
  PS_ASSIGN(size.patch, model.get<std::uint64_t>("patch_size"));
  PS_ASSIGN(size.channels, model.get<std::uint64_t>("num_channels"));
  PS_ASSIGN(size.width, model.get<std::uint64_t>("hidden_size"));
  PS_ASSIGN(size.layers, model.get<std::uint64_t>("num_hidden_layers"));
  PS_ASSIGN(size.heads, model.get<std::uint64_t>("num_attention_heads"));
  PS_ASSIGN(size.mlp, model.get<std::uint64_t>("intermediate_size"));
  if (size.patch == 0 || size.image % size.patch != 0 || size.heads == 0 || size.width % size.heads != 0 || labels == 0) {
    return Error(Code::cross_field, "the model's sizes contradict each other")
        .note(fmt::format("image {} / patch {}, width {} / heads {}, {} labels", size.image, size.patch, size.width, size.heads,
                          labels));
  }
  return size;
}

std::uint64_t parameter_count(const VitSize& s, bool qkv_bias) {
  const std::uint64_t d = s.width;
  const std::uint64_t patch = d * s.channels * s.patch * s.patch + d;
  const std::uint64_t attention = 4 * d * d + d + (qkv_bias ? 3 * d : 0);
  const std::uint64_t block = attention + 2 * d * s.mlp + s.mlp + d + 4 * d;
  return d + s.tokens() * d + patch + s.layers * block + 2 * d + s.labels * d + s.labels;
}

/// Floats that autograd keeps per sample: inputs of norms, projections and activations, and the attention weights.
std::uint64_t activation_bytes(const VitSize& s) {
  const std::uint64_t per_token = 10 * s.width + 2 * s.mlp;
  return 4 * (s.layers * (s.tokens() * per_token + s.heads * s.tokens() * s.tokens()) + s.channels * s.image * s.image +
              4 * s.tokens() * s.width);
}

plan::WorkloadShape shape_of(const VitSize& size, Json model, Json preprocessor, bool qkv_bias) {
  plan::WorkloadShape shape;
  shape.model = std::move(model);
  shape.preprocessor = std::move(preprocessor);
  shape.fields = Json::array(
      {Json::object(
           {{"name", "pixel_values"}, {"dtype", "F32"}, {"sample_shape", Json::array({size.channels, size.image, size.image})}}),
       Json::object({{"name", "labels"}, {"dtype", "I64"}, {"sample_shape", Json::array()}})});
  shape.channels = static_cast<std::uint32_t>(size.channels);
  shape.image_size = static_cast<std::uint32_t>(size.image);
  shape.num_labels = static_cast<std::uint32_t>(size.labels);
  shape.parameters = parameter_count(size, qkv_bias);
  shape.activation_bytes_per_sample = activation_bytes(size);
  return shape;
}

/// One mean or deviation for each channel, as the model directory's file wants it.
Json per_channel(const Json& recipe, std::string_view key, std::uint64_t channels) {
  const Json* given = recipe.find(key);
  Json::Array values = given != nullptr ? given->items() : Json::Array{Json(0.5)};
  while (!values.empty() && values.size() < channels) {
    values.push_back(values.back());
  }
  return Json(std::move(values));
}

Json labels_json(const Json& names, std::uint64_t count, bool inverse) {
  Json map = Json::object();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string* given = i < names.items().size() ? names.items()[i].to_string() : nullptr;
    const std::string name = given != nullptr ? *given : fmt::format("LABEL_{}", i);
    if (inverse) {
      map[name] = i;
    } else {
      map[std::to_string(i)] = name;
    }
  }
  return map;
}

/// Hugging Face's `config.json` of a ViTForImageClassification, from the `model` section.
Result<plan::WorkloadShape> shape_from_config(const plan::WorkloadRequest& request) {
  const Json& m = request.model;
  PS_ASSIGN(const auto labels, m.get<std::uint64_t>("num_labels"));
  PS_ASSIGN(const VitSize size, read_size(m, labels));
  PS_ASSIGN(const bool qkv_bias, m.get_or<bool>("qkv_bias", true));
  PS_ASSIGN(const Json names, m.get_or<Json>("label_names", Json::array()));
  Json model = Json::object({{"architectures", Json::array({"ViTForImageClassification"})}, {"model_type", "vit"}});
  for (const char* key : {"image_size", "patch_size", "num_channels", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "hidden_act", "layer_norm_eps", "initializer_range", "hidden_dropout_prob",
                          "attention_probs_dropout_prob", "qkv_bias"}) {
    PS_ASSIGN(model[key], m.get<Json>(key));
  }
  model["encoder_stride"] = size.patch;
  model["id2label"] = labels_json(names, labels, false);
  model["label2id"] = labels_json(names, labels, true);
  model["dtype"] = "float32";
  const Json mean = per_channel(request.recipe, "mean", size.channels);
  const Json std = per_channel(request.recipe, "std", size.channels);
  constexpr int kBilinear = 2;  // Pillow's number
  Json preprocessor = Json::object({{"image_processor_type", "ViTImageProcessor"},
                                    {"do_resize", true},
                                    {"size", Json::object({{"height", size.image}, {"width", size.image}})},
                                    {"resample", kBilinear},
                                    {"do_rescale", true},
                                    {"rescale_factor", 1.0 / 255.0},
                                    {"do_normalize", true},
                                    {"image_mean", mean},
                                    {"image_std", std}});
  return shape_of(size, std::move(model), std::move(preprocessor), qkv_bias);
}

}  // namespace

plan::WorkloadRecord vit_classifier() {
  return {.name = "vit_classifier",
          .built = true,
          .when = {},
          .workers = {"cpp", "fake"},
          .metrics = {"top1", "top5", "loss"},
          .capability_level = "local_native_vit_classifier",
          .shape = shape_from_config};
}

Result<DirectoryModel> read_model_directory(const Json& model, const Json& preprocessor) {
  PS_ASSIGN(const auto type, model.get_or<std::string>("model_type", "unknown"));
  if (type != "vit") {
    return Error(Code::workload_not_built, fmt::format("model type `{}` is not built yet", type))
        .note("built: vit (image classification)");
  }
  DirectoryModel out{.workload = "vit_classifier"};
  const Json* labels = model.find("id2label");
  const std::uint64_t count = labels != nullptr ? labels->members().size() : 0;
  PS_ASSIGN(const VitSize size, read_size(model, count));
  PS_ASSIGN(const bool qkv_bias, model.get_or<bool>("qkv_bias", true));
  for (std::uint64_t i = 0; i < count; ++i) {
    PS_ASSIGN(auto name, labels->get<std::string>(std::to_string(i)));
    out.labels.push_back(std::move(name));
  }
  PS_ASSIGN(const auto resample, preprocessor.get_or<std::uint64_t>("resample", 2));
  if (resample != 2) {
    return Error(Code::not_built, fmt::format("resize filter {} of the preprocessor is not built yet", resample))
        .note("built: 2 (bilinear)");
  }
  out.recipe =
      Json::object({{"size", size.image},
                    {"mean", preprocessor.contains("image_mean") ? *preprocessor.find("image_mean") : Json::array({0.5})},
                    {"std", preprocessor.contains("image_std") ? *preprocessor.find("image_std") : Json::array({0.5})}});
  out.shape = shape_of(size, model, preprocessor, qkv_bias);
  return out;
}

}  // namespace parascale::workloads
