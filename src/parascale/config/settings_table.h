#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parascale/config/setting.h"

namespace parascale::config {

/// Every setting the product knows, found by canonical path or alias. Built once from the lists below. *thread-safe* (never
/// changes)
class SettingsTable {
 public:
  explicit SettingsTable(std::vector<Setting> settings);

  const std::vector<Setting>& settings() const { return settings_; }
  /// Index of the setting that `path` (canonical or alias) names.
  std::optional<std::size_t> find(std::string_view path) const;
  /// Whether settings stand below `path`; the empty path is the root.
  bool is_section(std::string_view path) const;
  /// The keys known directly below a section, aliases included, in table order.
  const std::vector<std::string>& keys(std::string_view section) const;
  /// All spellings of all settings.
  const std::vector<std::string>& spellings() const { return spellings_; }

 private:
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <typename T>
  using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  void add_spelling(const std::string& path, std::size_t index);

  std::vector<Setting> settings_;
  TextMap<std::size_t> by_spelling_;
  TextMap<std::vector<std::string>> keys_by_section_;
  std::vector<std::string> spellings_;
};

/// The table of the product.
const SettingsTable& settings_table();

// The lists, one per section of the config (`settings_*.cpp`). A new setting is one row in one of them.

std::vector<Setting> workload_settings();       ///< schema_version, parascale.workload.*
std::vector<Setting> parallel_settings();       ///< parascale.parallel.*, parascale.quantization.*
std::vector<Setting> backend_settings();        ///< parascale.backend.*
std::vector<Setting> loader_settings();         ///< parascale.data.*
std::vector<Setting> training_settings();       ///< parascale.training.*, training.*
std::vector<Setting> optimizer_settings();      ///< optimizer.*
std::vector<Setting> model_settings();          ///< model.*
std::vector<Setting> data_settings();           ///< data.*
std::vector<Setting> runtime_settings();        ///< runtime.*
std::vector<Setting> planner_input_settings();  ///< the free-form sections of the original

/// Every setting as JSON for schema export and reference: path, type, default, bounds, choices, doc, aliases, status, why. Table
/// order.
Json describe_settings();

}  // namespace parascale::config
