#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"
#include "parascale/config/environment.h"
#include "parascale/config/resolved_config.h"

namespace parascale::config {

/// The newest version of the config format; files without a version count as 0 and are read the same way.
inline constexpr std::int64_t kSchemaVersion = 1;

/// What a config is made from, lowest priority first: defaults, file, overrides.
struct LoadRequest {
  std::optional<std::string> path;     ///< YAML, or strict JSON when it ends in `.json`; none = defaults and overrides only
  std::vector<std::string> overrides;  ///< `path=value` of `--set`, later ones win; the path may be an alias or a section
  Environment environment = process_environment();
  FileSystem* files = &real_file_system();
};

/// A config, or every mistake in it; never both. Errors are sorted: file by place, then overrides, then mistakes without a place.
struct LoadOutcome {
  std::optional<ResolvedConfig> config;
  std::vector<Error> errors;
  std::vector<Error> warnings;  ///< also in `config->warnings`
};

/// Reads, merges and checks a config. All mistakes are collected.
///
/// Errors: config_unreadable, config_syntax, unknown_key, unknown_value, duplicate_key, wrong_type, out_of_bounds, cross_field,
/// undefined_variable, not_built, alias_conflict, missing_setting, schema_version, override_syntax. Warnings: dead_setting,
/// schema_version (none is given). *thread-safe*
LoadOutcome load_config(const LoadRequest& request);

/// The same for a text at hand; `name` stands for the path (and decides between YAML and JSON). For tests and fuzzing.
struct TextRequest {
  std::string text;
  std::string name = "config.yaml";
  std::vector<std::string> overrides;
  Environment environment = fixed_environment({});
};
LoadOutcome load_config_text(const TextRequest& request);

}  // namespace parascale::config
