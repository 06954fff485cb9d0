#include "parascale/data/options.h"

#include <fmt/core.h>

#include <cmath>

namespace parascale::data {

namespace {

Error bad_bound(std::string_view member, std::string_view rule) {
  return Error(Code::out_of_bounds, fmt::format("data option `{}` is outside its bounds", member))
      .note(fmt::format("allowed: {}", rule));
}

Error bad_type(std::string_view member, std::string_view expected) {
  return Error(Code::wrong_type, fmt::format("data option `{}` is no {}", member, expected));
}

Result<std::vector<std::string>> strings(const Json& json, std::string_view member) {
  std::vector<std::string> out;
  const Json* list = json.find(member);
  if (list == nullptr || list->is_null()) {
    return out;
  }
  if (!list->is_array()) {
    return bad_type(member, "list of paths");
  }
  for (const auto& item : list->items()) {
    if (item.to_string() == nullptr) {
      return bad_type(member, "list of paths");
    }
    out.push_back(*item.to_string());
  }
  return out;
}

Result<std::vector<double>> numbers(const Json& json, std::string_view member, std::vector<double> fallback) {
  const Json* list = json.find(member);
  if (list == nullptr || list->is_null()) {
    return fallback;
  }
  std::vector<double> out;
  for (const auto& item : list->items()) {
    const auto value = item.to_double();
    if (!value || !std::isfinite(*value)) {
      return bad_type(member, "list of numbers");
    }
    out.push_back(*value);
  }
  if (out.empty()) {
    return bad_type(member, "list of numbers");
  }
  return out;
}

Result<Recipe> recipe_from_json(const Json& json) {
  Recipe recipe;
  PS_ASSIGN(const auto filter, json.get_or<std::string>("resize", "bilinear"));
  if (filter != "bilinear") {
    return Error(Code::unknown_value, fmt::format("unknown resize filter `{}`", filter)).note("known: bilinear");
  }
  PS_ASSIGN(recipe.size, json.get_or<std::uint32_t>("size", recipe.size));
  PS_ASSIGN(recipe.channels, json.get_or<std::uint32_t>("channels", recipe.channels));
  PS_ASSIGN(recipe.mean, numbers(json, "mean", recipe.mean));
  PS_ASSIGN(recipe.std, numbers(json, "std", recipe.std));
  if (recipe.size < 1 || recipe.size > 4096) {
    return bad_bound("recipe.size", "1..4096");
  }
  if (recipe.channels != 1 && recipe.channels != 3) {
    return bad_bound("recipe.channels", "1 or 3");
  }
  for (const auto* values : {&recipe.mean, &recipe.std}) {
    if (values->size() != 1 && values->size() != recipe.channels) {
      return bad_bound(values == &recipe.mean ? "recipe.mean" : "recipe.std", "one number, or one per channel");
    }
  }
  for (const double value : recipe.std) {
    if (value <= 0.0) {
      return bad_bound("recipe.std", "above 0");
    }
  }
  return recipe;
}

Result<Affine> affine_from_json(const Json& json) {
  Affine affine;
  PS_ASSIGN(affine.degrees, json.get_or<double>("degrees", 0.0));
  PS_ASSIGN(const auto scale, numbers(json, "scale", {1.0, 1.0}));
  PS_ASSIGN(affine.translate, json.get_or<double>("translate", 0.0));
  if (scale.size() != 2) {
    return bad_type("affine.scale", "pair of numbers");
  }
  affine.scale = {scale[0], scale[1]};
  if (!(affine.degrees >= 0.0 && affine.degrees <= 180.0)) {
    return bad_bound("affine.degrees", "0..180");
  }
  if (!(scale[0] > 0.0 && scale[0] <= scale[1] && scale[1] <= 100.0)) {
    return bad_bound("affine.scale", "0 < lower <= upper <= 100");
  }
  if (!(affine.translate >= 0.0 && affine.translate <= 1.0)) {
    return bad_bound("affine.translate", "0..1");
  }
  return affine;
}

}  // namespace

std::string_view dataset_type_name(DatasetType type) {
  switch (type) {
    case DatasetType::wds:
      return "wds";
    case DatasetType::synthetic:
      return "synthetic";
    case DatasetType::files:
      return "files";
  }
  return "";
}

std::optional<DatasetType> dataset_type_from_name(std::string_view name) {
  for (const auto type : {DatasetType::wds, DatasetType::synthetic, DatasetType::files}) {
    if (dataset_type_name(type) == name) {
      return type;
    }
  }
  return std::nullopt;
}

std::string_view split_name(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::infer:
      return "infer";
  }
  return "";
}

std::optional<Split> split_from_name(std::string_view name) {
  for (const auto split : {Split::train, Split::validation, Split::infer}) {
    if (split_name(split) == name) {
      return split;
    }
  }
  return std::nullopt;
}

const std::vector<std::string>& DataOptions::paths(Split split) const {
  switch (split) {
    case Split::train:
      return train;
    case Split::validation:
      return validation;
    case Split::infer:
      break;
  }
  return infer;
}

Json DataOptions::to_json() const {
  Json recipe_json = Json::object({{"resize", "bilinear"},
                                   {"size", recipe.size},
                                   {"channels", recipe.channels},
                                   {"mean", Json::array_of(recipe.mean)},
                                   {"std", Json::array_of(recipe.std)}});
  Json affine_json;
  if (affine) {
    affine_json =
        Json::object({{"degrees", affine->degrees}, {"scale", Json::array_of(affine->scale)}, {"translate", affine->translate}});
  }
  return Json::object({{"format_version", kFormatVersion},
                       {"type", dataset_type_name(type)},
                       {"train", Json::array_of(train)},
                       {"validation", Json::array_of(validation)},
                       {"infer", Json::array_of(infer)},
                       {"recipe", std::move(recipe_json)},
                       {"affine", std::move(affine_json)},
                       {"synthetic", Json::object({{"samples", synthetic.samples}})},
                       {"seed", seed},
                       {"threads", threads},
                       {"memory_limit_bytes", memory_limit_bytes},
                       {"max_failure_rate", max_failure_rate},
                       {"num_labels", num_labels}});
}

Result<DataOptions> DataOptions::from_json(const Json& json) {
  PS_ASSIGN(const auto version, json.get_or<std::uint32_t>("format_version", kFormatVersion));
  if (version != kFormatVersion) {
    return Error(Code::artifact_version,
                 fmt::format("data options have format version {}; this build reads {}", version, kFormatVersion));
  }
  DataOptions options;
  PS_ASSIGN(const auto type, json.get<std::string>("type"));
  const auto known = dataset_type_from_name(type);
  if (!known) {
    return Error(Code::unknown_value, fmt::format("unknown dataset type `{}`", type)).note("known: wds, synthetic, files");
  }
  options.type = *known;
  PS_ASSIGN(options.train, strings(json, "train"));
  PS_ASSIGN(options.validation, strings(json, "validation"));
  PS_ASSIGN(options.infer, strings(json, "infer"));
  if (const Json* recipe = json.find("recipe"); recipe != nullptr && !recipe->is_null()) {
    PS_ASSIGN(options.recipe, recipe_from_json(*recipe));
  }
  if (const Json* affine = json.find("affine"); affine != nullptr && !affine->is_null()) {
    PS_ASSIGN(options.affine, affine_from_json(*affine));
  }
  if (const Json* synthetic = json.find("synthetic"); synthetic != nullptr && !synthetic->is_null()) {
    PS_ASSIGN(options.synthetic.samples, synthetic->get_or<std::uint64_t>("samples", options.synthetic.samples));
  }
  PS_ASSIGN(options.seed, json.get_or<std::uint64_t>("seed", 0));
  PS_ASSIGN(options.threads, json.get_or<std::uint32_t>("threads", 1));
  PS_ASSIGN(options.memory_limit_bytes, json.get_or<std::uint64_t>("memory_limit_bytes", 0));
  PS_ASSIGN(options.max_failure_rate, json.get_or<double>("max_failure_rate", options.max_failure_rate));
  PS_ASSIGN(options.num_labels, json.get_or<std::uint32_t>("num_labels", options.num_labels));
  if (options.threads > 1024) {
    return bad_bound("threads", "0..1024");
  }
  if (!(options.max_failure_rate >= 0.0 && options.max_failure_rate <= 1.0)) {
    return bad_bound("max_failure_rate", "0..1");
  }
  if (options.num_labels < 1) {
    return bad_bound("num_labels", "at least 1");
  }
  return options;
}

Json DatasetSummary::to_json() const {
  return Json::object({{"samples", samples},
                       {"incomplete", incomplete},
                       {"unlabelled", unlabelled},
                       {"bytes", bytes},
                       {"fingerprint", fingerprint},
                       {"shards", shards},
                       {"damaged_shards", damaged_shards},
                       {"damage", Json::array_of(damage)},
                       {"min_width", min_width},
                       {"max_width", max_width},
                       {"min_height", min_height},
                       {"max_height", max_height}});
}

Result<DatasetSummary> DatasetSummary::from_json(const Json& json) {
  DatasetSummary summary;
  PS_ASSIGN(summary.samples, json.get<std::uint64_t>("samples"));
  PS_ASSIGN(summary.incomplete, json.get_or<std::uint64_t>("incomplete", 0));
  PS_ASSIGN(summary.unlabelled, json.get_or<std::uint64_t>("unlabelled", 0));
  PS_ASSIGN(summary.bytes, json.get_or<std::uint64_t>("bytes", 0));
  PS_ASSIGN(summary.fingerprint, json.get<std::string>("fingerprint"));
  PS_ASSIGN(summary.shards, json.get_or<std::uint64_t>("shards", 0));
  PS_ASSIGN(summary.damaged_shards, json.get_or<std::uint64_t>("damaged_shards", 0));
  PS_ASSIGN(summary.damage, strings(json, "damage"));
  PS_ASSIGN(summary.min_width, json.get_or<std::uint32_t>("min_width", 0));
  PS_ASSIGN(summary.max_width, json.get_or<std::uint32_t>("max_width", 0));
  PS_ASSIGN(summary.min_height, json.get_or<std::uint32_t>("min_height", 0));
  PS_ASSIGN(summary.max_height, json.get_or<std::uint32_t>("max_height", 0));
  return summary;
}

}  // namespace parascale::data
