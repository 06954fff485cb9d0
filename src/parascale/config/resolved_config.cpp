#include "parascale/config/resolved_config.h"

#include <fmt/core.h>

#include <algorithm>

#include "parascale/config/settings_table.h"

namespace parascale::config {

const ResolvedField* ResolvedConfig::find(std::string_view path) const {
  const auto found = std::ranges::find(fields, path, &ResolvedField::path);
  return found == fields.end() ? nullptr : &*found;
}

Json ResolvedConfig::to_json() const {
  Json document = Json::object({{"format_version", kFormatVersion},
                                {"config_path", config_path},
                                {"run_name", run_name},
                                {"override_count", override_count}});
  Json warning_rows = Json::array();
  for (const Error& warning : warnings) {
    Json row = Json::object({{"code", code_text(warning.code())}, {"message", warning.message()}});
    row["file"] = warning.mark() ? Json(warning.mark()->file) : Json();
    row["line"] = warning.mark() ? Json(warning.mark()->line) : Json();
    row["column"] = warning.mark() ? Json(warning.mark()->column) : Json();
    warning_rows.push_back(std::move(row));
  }
  document["warnings"] = std::move(warning_rows);
  Json rows = Json::array();
  for (const ResolvedField& field : fields) {
    Json history = Json::array();
    for (const Assignment& entry : field.history) {
      history.push_back(Json::object(
          {{"source", entry.source}, {"priority", entry.priority}, {"value", entry.value}, {"reason", entry.reason}}));
    }
    rows.push_back(Json::object({{"path", field.path},
                                 {"value", field.value},
                                 {"source", field.source},
                                 {"explicitly_set", field.explicitly_set},
                                 {"history", std::move(history)}}));
  }
  document["fields"] = std::move(rows);
  return document;
}

namespace {

Result<ResolvedField> field_from_json(const Json& row) {
  ResolvedField field;
  PS_ASSIGN(field.path, row.get<std::string>("path"));
  PS_ASSIGN(field.value, row.get<Json>("value"));
  PS_ASSIGN(field.source, row.get<std::string>("source"));
  PS_ASSIGN(field.explicitly_set, row.get<bool>("explicitly_set"));
  PS_ASSIGN(const Json history, row.get<Json>("history"));
  for (const Json& item : history.items()) {
    Assignment entry;
    PS_ASSIGN(entry.source, item.get<std::string>("source"));
    PS_ASSIGN(entry.priority, item.get<std::int32_t>("priority"));
    PS_ASSIGN(entry.value, item.get<Json>("value"));
    PS_ASSIGN(entry.reason, item.get<std::string>("reason"));
    field.history.push_back(std::move(entry));
  }
  return field;
}

}  // namespace

Result<ResolvedConfig> resolved_config_from_json(const Json& document) {
  PS_ASSIGN(const auto version, document.get<std::int64_t>("format_version"));
  if (version != ResolvedConfig::kFormatVersion) {
    return Error(Code::artifact_version, fmt::format("the resolved config has format {}; this version reads format {}", version,
                                                     ResolvedConfig::kFormatVersion))
        .help("use the version of parascale that wrote it");
  }
  ResolvedConfig config;
  PS_ASSIGN(config.config_path, document.get<std::string>("config_path"));
  PS_ASSIGN(config.run_name, document.get<std::string>("run_name"));
  PS_ASSIGN(config.override_count, document.get<std::uint64_t>("override_count"));
  PS_ASSIGN(const Json rows, document.get<Json>("fields"));
  const SettingsTable& table = settings_table();
  // A setting the writer did not know yet keeps its default.
  for (const Setting& setting : table.settings()) {
    if (setting.member.write != nullptr) {
      setting.member.write(config, setting.fallback);
    }
  }
  for (const Json& row : rows.items()) {
    PS_ASSIGN(auto field, field_from_json(row));
    const auto index = table.find(field.path);
    if (index && table.settings()[*index].member.write != nullptr) {
      table.settings()[*index].member.write(config, field.value);
    }
    config.fields.push_back(std::move(field));
  }
  return config;
}

}  // namespace parascale::config
