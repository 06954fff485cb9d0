#pragma once

#include <map>
#include <string>
#include <vector>

#include "parascale/config/cross_field.h"
#include "parascale/config/environment.h"
#include "parascale/config/marked_node.h"
#include "parascale/config/settings_table.h"

namespace parascale::config {

/// Priorities of the original's ladder.
inline constexpr int kDefaultPriority = 0;
inline constexpr int kFilePriority = 40;
inline constexpr int kCommandLinePriority = 90;

/// Collects what each layer assigns to each setting, with marks, and everything that is wrong with it. *thread-compatible*
///
/// Use: `add_file`, then `add_override` for each, then `resolve`.
class Layers {
 public:
  Layers(const SettingsTable& table, const Environment& environment);

  /// Takes the settings of a parsed file; expands variables in `root`.
  void add_file(const SourceText& source, MarkedNode root);
  /// Takes one `path=value`.
  void add_override(const std::string& text);

  /// Returns fields and members in force. Checks what needs all layers: conflicting spellings, settings that are not built or
  /// dead, schema version, rules between settings (`complete` = false leaves those out: the file could not be read).
  ResolvedConfig resolve(bool complete);

  std::vector<Error> take_errors() { return std::move(errors_); }
  std::vector<Error> take_warnings() { return std::move(warnings_); }

 private:
  /// One value given for a setting.
  struct Given {
    Json value;
    std::string spelling;  ///< the path as the user wrote it
    std::string source;
    int priority = 0;
    Mark mark;
  };
  struct Slot {
    std::vector<Given> given;
    bool failed = false;
  };
  /// A key on its way to its setting.
  struct Visit {
    const SourceText& source;
    int priority;
  };

  void visit(const std::string& path, const Place& key, const MarkedNode& node, const Visit& where);
  void take(std::size_t index, const std::string& path, const Place& key, const MarkedNode& node, const Visit& where);
  void report_unknown(const std::string& path, const Place& key, const Visit& where);
  void report_conflicts();
  void check_status(std::size_t index, const ResolvedConfig& config);
  void check_schema_version(const ResolvedConfig& config);
  CrossFieldInput cross_field_input(const ResolvedConfig& config) const;

  const SettingsTable& table_;
  const Environment& environment_;
  std::vector<Slot> slots_;
  std::map<std::string, Mark, std::less<>> sections_;
  std::vector<Error> errors_;
  std::vector<Error> warnings_;
  bool has_file_ = false;
  std::size_t overrides_ = 0;
  std::size_t unknown_keys_ = 0;
};

}  // namespace parascale::config
