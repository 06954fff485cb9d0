#include "parascale/config/settings_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "parascale/base/check.h"

namespace parascale::config {

namespace {

// Keys of these sections may also stand directly below `parascale`: the flat form of the original.
constexpr std::array<std::string_view, 5> kFlatSections = {"parascale.workload.", "parascale.parallel.", "parascale.backend.",
                                                           "parascale.data.", "parascale.training."};

Json as_shape(const Json& value, Shape shape) {
  if (shape == Shape::number && value.is_integer()) {
    return Json(value.to_double().value_or(0.0));
  }
  if (shape == Shape::numbers || shape == Shape::number_pair) {
    Json::Array items;
    for (const Json& item : value.items()) {
      items.emplace_back(item.to_double().value_or(0.0));
    }
    return value.is_null() ? Json() : Json(std::move(items));
  }
  return value;
}

void complete(Setting& setting) {
  if (setting.member.read != nullptr) {
    setting.shape = setting.member.shape;
  }
  if (!setting.choices.empty()) {
    setting.shape = Shape::choice;
  }
  setting.fallback = as_shape(setting.fallback, setting.shape);
  if (setting.noun.empty()) {
    setting.noun = std::string(setting.last_part());
  }
  for (const std::string_view section : kFlatSections) {
    if (setting.path.starts_with(section)) {
      setting.aliases.push_back("parascale." + setting.path.substr(section.size()));
    }
  }
}

template <typename Lists>
std::vector<Setting> concatenated(Lists lists) {
  std::vector<Setting> all;
  for (auto& list : lists) {
    std::ranges::move(list, std::back_inserter(all));
  }
  return all;
}

}  // namespace

SettingsTable::SettingsTable(std::vector<Setting> settings) : settings_(std::move(settings)) {
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    complete(settings_[i]);
    add_spelling(settings_[i].path, i);
    for (const auto& alias : settings_[i].aliases) {
      add_spelling(alias, i);
    }
  }
}

void SettingsTable::add_spelling(const std::string& path, std::size_t index) {
  PS_CHECK(by_spelling_.emplace(path, index).second, "a spelling belongs to one setting: " + path);
  spellings_.push_back(path);
  std::string below = path;
  while (true) {
    const auto dot = below.rfind('.');
    const std::string section = dot == std::string::npos ? "" : below.substr(0, dot);
    auto& keys = keys_by_section_[section];
    const std::string key = dot == std::string::npos ? below : below.substr(dot + 1);
    if (std::ranges::find(keys, key) != keys.end()) {
      return;
    }
    keys.push_back(key);
    if (section.empty()) {
      return;
    }
    below = section;
  }
}

std::optional<std::size_t> SettingsTable::find(std::string_view path) const {
  const auto found = by_spelling_.find(path);
  return found == by_spelling_.end() ? std::nullopt : std::optional(found->second);
}

bool SettingsTable::is_section(std::string_view path) const { return keys_by_section_.contains(path); }

const std::vector<std::string>& SettingsTable::keys(std::string_view section) const {
  static const std::vector<std::string> none;
  const auto found = keys_by_section_.find(section);
  return found == keys_by_section_.end() ? none : found->second;
}

const SettingsTable& settings_table() {
  static const SettingsTable table(concatenated(
      std::array{workload_settings(), parallel_settings(), backend_settings(), loader_settings(), training_settings(),
                 optimizer_settings(), model_settings(), data_settings(), runtime_settings(), planner_input_settings()}));
  return table;
}

Json describe_settings() {
  Json rows = Json::array();
  for (const Setting& setting : settings_table().settings()) {
    Json row = Json::object({{"path", setting.path}, {"type", shape_text(setting.shape)}, {"default", setting.fallback}});
    row["nullable"] = setting.nullable();
    row["bounds"] = setting.bounds.text();
    Json names = Json::array();
    for (const Choice& choice : setting.choices) {
      names.push_back(
          Json::object({{"name", choice.name}, {"aliases", Json::array_of(choice.aliases)}, {"not_built", choice.not_built}}));
    }
    row["choices"] = std::move(names);
    row["doc"] = setting.doc;
    row["aliases"] = Json::array_of(setting.aliases);
    row["status"] = status_text(setting.status);
    row["why"] = setting.why;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace parascale::config
