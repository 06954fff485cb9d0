#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parascale/base/json.h"
#include "parascale/config/load_config.h"

namespace parascale::config {

/// What `config show` shows.
struct ShowOptions {
  bool origins = false;  ///< also where each value comes from and what it replaced
  bool all = false;      ///< every setting that is used, not only those that were given
};

/// An aligned table: path, value, origin. One line per setting in table order; `-` for unset; ends with a line feed.
std::string show_text(const ResolvedConfig& config, const ShowOptions& options);
/// The same as JSON: format_version, config, run_name, settings [{path, value, source, explicitly_set, history}].
Json show_json(const ResolvedConfig& config, const ShowOptions& options);

/// `configs/x.yaml is valid: 23 settings given, 41 defaults`; counts settings that are used.
std::string summary_text(const ResolvedConfig& config);
/// The payload of `config validate`: format_version, mode, config, validation {ok, schema_version, current_schema_version,
/// legacy, migration_required}, errors, warnings. `path` is the file as given; schema_version is null when errors kept it from
/// being read.
Json validation_json(const LoadOutcome& outcome, std::string_view path);
/// One diagnostic: code, kind, message, file, line, column, length, notes, help.
Json diagnostic_json(const Error& error);

/// All errors in the form of `render`, parted by blank lines, and the line `N errors in FILE; nothing was started (exit 2)`.
std::string render_all(std::span<const Error> errors, std::string_view file);

}  // namespace parascale::config
