#include "parascale/config/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "parascale/base/text.h"
#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

bool is_used(const ResolvedField& field) {
  const auto index = settings_table().find(field.path);
  return index && settings_table().settings()[*index].status == Status::used;
}

bool is_shown(const ResolvedField& field, const ShowOptions& options) {
  return field.explicitly_set || (options.all && is_used(field));
}

/// Cells hold no blanks: a string with blanks keeps its quotes.
std::string cell(const Json& value) {
  if (value.is_null()) {
    return "-";
  }
  const std::string* text = value.to_string();
  const bool bare = text != nullptr && !text->empty() && *text != "-" && text->find_first_of(" \t\n\"") == std::string::npos;
  return bare ? *text : value.dump();
}

/// `--set (was 64 at configs/a.yaml:8:17)`.
std::string origin(const ResolvedField& field) {
  std::string out = field.source;
  if (field.history.size() > 2) {
    const Assignment& before = field.history[field.history.size() - 2];
    out += fmt::format(" (was {} at {})", cell(before.value), before.source);
  }
  if (!field.history.empty() && !field.history.back().reason.empty()) {
    out += fmt::format(" ({})", field.history.back().reason);
  }
  return out;
}

}  // namespace

std::string show_text(const ResolvedConfig& config, const ShowOptions& options) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths(3, 0);
  for (const ResolvedField& field : config.fields) {
    if (is_shown(field, options)) {
      auto& row = rows.emplace_back(std::vector<std::string>{field.path, cell(field.value)});
      if (options.origins) {
        row.push_back(origin(field));
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    out += row.back() + "\n";
  }
  return out;
}

Json show_json(const ResolvedConfig& config, const ShowOptions& options) {
  Json document = config.to_json();
  Json rows = Json::array();
  const Json* fields = document.find("fields");
  for (std::size_t i = 0; i < config.fields.size(); ++i) {
    if (is_shown(config.fields[i], options)) {
      Json row = fields->items()[i];
      if (!options.origins) {
        row.erase("history");
      }
      rows.push_back(std::move(row));
    }
  }
  return Json::object({{"format_version", ResolvedConfig::kFormatVersion},
                       {"config", config.config_path},
                       {"run_name", config.run_name},
                       {"settings", std::move(rows)}});
}

std::string summary_text(const ResolvedConfig& config) {
  const auto given = std::ranges::count_if(config.fields, [](const ResolvedField& f) { return f.explicitly_set; });
  const auto defaults =
      std::ranges::count_if(config.fields, [](const ResolvedField& f) { return !f.explicitly_set && is_used(f); });
  return fmt::format("{} is valid: {} given, {}", config.config_path.empty() ? "the config" : config.config_path,
                     format_count(static_cast<std::uint64_t>(given), "setting"),
                     format_count(static_cast<std::uint64_t>(defaults), "default"));
}

Json validation_json(const LoadOutcome& outcome, std::string_view path) {
  Json validation = Json::object({{"ok", outcome.config.has_value()}});
  validation["schema_version"] = outcome.config ? Json(outcome.config->schema_version) : Json();
  validation["current_schema_version"] = kSchemaVersion;
  const bool legacy = outcome.config && outcome.config->schema_version < kSchemaVersion;
  validation["legacy"] = outcome.config ? Json(legacy) : Json();
  validation["migration_required"] = outcome.config ? Json(legacy) : Json();
  Json errors = Json::array();
  for (const Error& error : outcome.errors) {
    errors.push_back(diagnostic_json(error));
  }
  Json warnings = Json::array();
  for (const Error& warning : outcome.warnings) {
    warnings.push_back(diagnostic_json(warning));
  }
  return Json::object({{"format_version", 1},
                       {"mode", "config_validate"},
                       {"config", path},
                       {"validation", std::move(validation)},
                       {"errors", std::move(errors)},
                       {"warnings", std::move(warnings)}});
}

Json diagnostic_json(const Error& error) {
  const auto& mark = error.mark();
  return Json::object({{"code", code_text(error.code())},
                       {"kind", info(error.code()).name},
                       {"message", error.message()},
                       {"file", mark ? Json(mark->file) : Json()},
                       {"line", mark ? Json(mark->line) : Json()},
                       {"column", mark ? Json(mark->column) : Json()},
                       {"length", mark ? Json(mark->length) : Json()},
                       {"notes", Json::array_of(error.notes())},
                       {"help", Json::array_of(error.helps())}});
}

std::string render_all(std::span<const Error> errors, std::string_view file) {
  std::string out;
  for (const Error& error : errors) {
    out += render(error) + "\n";
  }
  const int code = errors.empty() ? 0 : exit_code(errors.front().kind());
  out += fmt::format("{} in {}; nothing was started (exit {})\n", format_count(errors.size(), "error"),
                     file.empty() ? "the overrides" : file, code);
  return out;
}

}  // namespace parascale::config
