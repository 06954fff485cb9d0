#include "parascale/config/load_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "parascale/base/text.h"
#include "parascale/config/layers.h"

namespace parascale::config {

namespace {

constexpr std::uint64_t kMaxFileBytes = 1ULL << 20;
constexpr std::string_view kNameWithoutFile = "default";

/// A text with its name, or what kept it from being read.
struct Input {
  std::optional<std::string> path;
  std::optional<SourceText> source;
  std::vector<Error> errors;
};

std::string run_name_of(const std::optional<std::string>& path) {
  const std::string stem = path ? file_stem(*path) : std::string();
  return stem.empty() || stem == "." ? std::string(kNameWithoutFile) : replace_all(stem, "_", "-");
}

/// Errors of the file by place, then those of overrides in their order, then those without a place.
std::vector<Error> sorted_by_place(std::vector<Error> errors, const std::string& file) {
  using Key = std::tuple<int, std::uint32_t, std::uint32_t, std::size_t>;  // the last part keeps the order among equals
  std::vector<std::pair<Key, std::size_t>> order;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto& mark = errors[i].mark();
    const int group = !mark ? 2 : mark->file == file ? 0 : 1;
    order.emplace_back(group == 0 ? Key(group, mark->line, mark->column, i) : Key(group, 0U, 0U, i), i);
  }
  std::ranges::sort(order);
  std::vector<Error> sorted;
  sorted.reserve(errors.size());
  for (const auto& [key, index] : order) {
    sorted.push_back(std::move(errors[index]));
  }
  return sorted;
}

std::optional<std::string> similar_file(FileSystem& files, const std::string& path) {
  const auto entries = files.list(parent_path(path));
  if (!entries.ok()) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.is_directory) {
      names.push_back(entry.name);
    }
  }
  const auto name = closest(file_name(path), names);
  return name ? std::optional(parent_path(path) == "." ? *name : join_path(parent_path(path), *name)) : std::nullopt;
}

Input read_input(const LoadRequest& request) {
  Input input{.path = request.path};
  if (!request.path) {
    return input;
  }
  auto text = read_file(*request.files, *request.path, kMaxFileBytes);
  if (text.ok()) {
    input.source.emplace(*request.path, *std::move(text));
    return input;
  }
  Error error = text.error().wrap(Code::config_unreadable, fmt::format("the config file cannot be read: `{}`", *request.path));
  if (request.files->exists(*request.path)) {
    error.help("give a readable text file of at most 1 MiB");
  } else if (const auto similar = similar_file(*request.files, *request.path)) {
    error.help(fmt::format("did you mean `{}`?", *similar));
  } else {
    error.help("check the path; it is relative to the working directory");
  }
  input.errors.push_back(std::move(error));
  return input;
}

LoadOutcome resolve_input(Input input, const std::vector<std::string>& overrides, const Environment& environment) {
  LoadOutcome outcome;
  Layers layers(settings_table(), environment);
  std::vector<Error> errors = std::move(input.errors);
  bool complete = errors.empty();
  if (input.source) {
    ParsedText parsed = input.source->name().ends_with(".json") ? parse_marked_json(*input.source) : parse_marked(*input.source);
    errors.insert(errors.end(), parsed.errors.begin(), parsed.errors.end());
    const bool readable =
        parsed.root && (parsed.root->kind == MarkedNode::Kind::mapping || parsed.root->kind == MarkedNode::Kind::null);
    complete = complete && readable;
    if (parsed.root) {
      layers.add_file(*input.source, *std::move(parsed.root));
    }
  }
  for (const std::string& override_text : overrides) {
    layers.add_override(override_text);
  }
  ResolvedConfig config = layers.resolve(complete);
  for (Error& error : layers.take_errors()) {
    errors.push_back(std::move(error));
  }
  const std::string file = input.path.value_or("");
  outcome.warnings = sorted_by_place(layers.take_warnings(), file);
  outcome.errors = sorted_by_place(std::move(errors), file);
  if (outcome.errors.empty()) {
    config.config_path = file;
    config.run_name = run_name_of(input.path);
    config.warnings = outcome.warnings;
    outcome.config = std::move(config);
  }
  return outcome;
}

}  // namespace

LoadOutcome load_config(const LoadRequest& request) {
  return resolve_input(read_input(request), request.overrides, request.environment);
}

LoadOutcome load_config_text(const TextRequest& request) {
  Input input{.path = request.name, .source = SourceText(request.name, request.text)};
  return resolve_input(std::move(input), request.overrides, request.environment);
}

}  // namespace parascale::config
