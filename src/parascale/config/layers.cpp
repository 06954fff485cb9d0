#include "parascale/config/layers.h"

#include <fmt/core.h>

#include <algorithm>

#include "parascale/base/text.h"
#include "parascale/config/load_config.h"
#include "parascale/config/read_value.h"

namespace parascale::config {

namespace {

constexpr std::string_view kOverrideName = "--set";
constexpr std::size_t kMostKeysListed = 12;
constexpr std::size_t kMostSuggestions = 50;  // a search through all settings takes time; nobody reads more

std::string place_text(const Mark& mark) { return fmt::format("{}:{}:{}", mark.file, mark.line, mark.column); }

/// A value parsed out of the middle of an override gets the places of the whole override.
void shift(MarkedNode& node, std::uint32_t columns) {
  node.place.column += node.place.line == 1 ? columns : 0;
  for (MarkedNode& item : node.items) {
    shift(item, columns);
  }
  for (MarkedMember& member : node.members) {
    member.key_place.column += member.key_place.line == 1 ? columns : 0;
    shift(member.value, columns);
  }
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

}  // namespace

Layers::Layers(const SettingsTable& table, const Environment& environment)
    : table_(table), environment_(environment), slots_(table.settings().size()) {}

void Layers::add_file(const SourceText& source, MarkedNode root) {
  has_file_ = true;
  for (Error& error : expand_variables(root, source, environment_)) {
    errors_.push_back(std::move(error));
  }
  const Visit where{.source = source, .priority = kFilePriority};
  if (root.kind != MarkedNode::Kind::mapping && root.kind != MarkedNode::Kind::null) {
    errors_.push_back(Error(Code::wrong_type, fmt::format("the config is {}, not a mapping",
                                                          root.kind == MarkedNode::Kind::sequence ? "a list" : "one value"))
                          .at(source.mark(root.place))
                          .help("write sections and keys: `training: {workload: vit_classifier, max_steps: 100}`"));
    return;
  }
  for (const MarkedMember& member : root.members) {
    if (member.key.find('.') != std::string::npos) {
      Error error = Error(Code::unknown_key, fmt::format("unknown key `{}`", member.key)).at(source.mark(member.key_place));
      error.help(table_.find(member.key) ? fmt::format("write it nested: `{}`", replace_all(member.key, ".", ": {"))
                                         : std::string("keys hold no dots; write sections as nested mappings"));
      errors_.push_back(std::move(error));
      continue;
    }
    visit(member.key, member.key_place, member.value, where);
  }
}

void Layers::add_override(const std::string& text) {
  const SourceText source{std::string(kOverrideName), text};
  ++overrides_;
  const auto equals = text.find('=');
  const std::string path(trim(std::string_view(text).substr(0, equals)));
  const Place key{.line = 1, .column = 1, .length = static_cast<std::uint32_t>(std::max<std::size_t>(1, path.size()))};
  const auto refuse = [&](std::string message, std::string help) {
    errors_.push_back(Error(Code::override_syntax, std::move(message)).at(source.mark(key)).help(std::move(help)));
  };
  if (equals == std::string::npos) {
    return refuse(fmt::format("an override has no `=`: `{}`", text),
                  "write `--set path=value`, for example `--set training.max_steps=100`");
  }
  if (path.empty() || path.starts_with('.') || path.ends_with('.') || path.find("..") != std::string::npos ||
      path.find_first_of(" \t\n") != std::string::npos) {
    return refuse(fmt::format("an override has no valid path: `{}`", text),
                  "write `--set path=value`, for example `--set training.max_steps=100`");
  }
  const auto offset = static_cast<std::uint32_t>(equals + 1);
  const SourceText value{std::string(kOverrideName), text.substr(offset)};
  ParsedText parsed = parse_marked(value);
  for (const Error& error : parsed.errors) {
    Mark mark = error.mark() ? *error.mark() : Mark{.file = std::string(kOverrideName), .line = 1, .column = 1};
    mark.column += mark.line == 1 ? offset : 0;
    mark.line_text = mark.line == 1 ? std::string(source.line(1)) : mark.line_text;
    Error placed(error.code() == Code::config_syntax ? Code::override_syntax : error.code(), error.message());
    placed.at(std::move(mark)).help("quote a value that YAML reads in another way: `--set 'path=\"*.tar\"'`");
    errors_.push_back(std::move(placed));
  }
  if (!parsed.root || !parsed.errors.empty()) {
    return;
  }
  shift(*parsed.root, offset);
  for (Error& error : expand_variables(*parsed.root, source, environment_)) {
    errors_.push_back(std::move(error));
  }
  visit(path, key, *parsed.root, {.source = source, .priority = kCommandLinePriority});
}

void Layers::visit(const std::string& path, const Place& key, const MarkedNode& node, const Visit& where) {
  if (const auto index = table_.find(path)) {
    take(*index, path, key, node, where);
    return;
  }
  if (!table_.is_section(path)) {
    report_unknown(path, key, where);
    return;
  }
  sections_.try_emplace(path, where.source.mark(key));
  if (node.kind == MarkedNode::Kind::null) {
    return;
  }
  if (node.kind != MarkedNode::Kind::mapping) {
    errors_.push_back(Error(Code::wrong_type, fmt::format("the section `{}` is {}, not a mapping", path,
                                                          node.kind == MarkedNode::Kind::sequence ? "a list" : "one value"))
                          .at(value_mark(node, where.source, key))
                          .help(fmt::format("write keys below `{}`", path)));
    return;
  }
  for (const MarkedMember& member : node.members) {
    const std::string below = path + "." + member.key;
    if (member.key.find('.') != std::string::npos) {
      report_unknown(below, member.key_place, where);
    } else {
      visit(below, member.key_place, member.value, where);
    }
  }
}

void Layers::take(std::size_t index, const std::string& path, const Place& key, const MarkedNode& node, const Visit& where) {
  const Setting& setting = table_.settings()[index];
  ReadValue read = read_value(setting, node, where.source, key);
  for (Error& error : read.errors) {
    errors_.push_back(std::move(error));
  }
  if (!read.value) {
    slots_[index].failed = true;
    return;
  }
  Mark mark = value_mark(node, where.source, key);
  std::string source = where.priority == kCommandLinePriority ? std::string(kOverrideName) : place_text(mark);
  slots_[index].given.push_back({.value = *std::move(read.value),
                                 .spelling = path,
                                 .source = std::move(source),
                                 .priority = where.priority,
                                 .mark = std::move(mark)});
}

void Layers::report_unknown(const std::string& path, const Place& key, const Visit& where) {
  // The part that is unknown: the first one below the deepest section that exists.
  std::string section = parent_of(path);
  std::string unknown = path;
  while (!section.empty() && !table_.is_section(section) && !table_.find(section)) {
    unknown = section;
    section = parent_of(section);
  }
  const std::string word = section.empty() ? unknown : unknown.substr(section.size() + 1);
  Error error = Error(Code::unknown_key, section.empty() ? fmt::format("unknown key `{}`", word)
                                                         : fmt::format("unknown key `{}` in `{}`", word, section))
                    .at(where.source.mark(key));
  const auto& keys = table_.keys(section);
  std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
  const auto ends_with_last = [&](const std::string& spelling) { return spelling.ends_with("." + last); };
  if (++unknown_keys_ > kMostSuggestions) {
    error.help("remove it; `parascale config show --all` lists every setting");
  } else if (table_.find(section)) {
    error.help(fmt::format("`{}` is one value; give it as a whole", section));
  } else if (const auto close = closest(word, keys)) {
    error.help(
        fmt::format("did you mean `{}`?", section.empty() || where.priority == kFilePriority ? *close : section + "." + *close));
  } else if (const auto elsewhere = std::ranges::find_if(table_.spellings(), ends_with_last);
             elsewhere != table_.spellings().end()) {
    error.help(fmt::format("`{}` stands elsewhere: `{}`", last, *elsewhere));
  } else {
    if (keys.size() <= kMostKeysListed) {
      error.note(fmt::format("known here: {}", join(keys, ", ")));
    }
    error.help("remove it; `parascale config show --all` lists every setting");
  }
  errors_.push_back(std::move(error));
}

void Layers::report_conflicts() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Given* first = nullptr;
    for (const Given& given : slots_[i].given) {
      if (given.priority != kFilePriority) {
        continue;
      }
      if (first == nullptr) {
        first = &given;
      } else if (given.value != first->value) {
        errors_.push_back(
            Error(Code::alias_conflict, fmt::format("`{}` and `{}` are one setting with two values: `{}` and `{}`",
                                                    first->spelling, given.spelling, first->value.dump(), given.value.dump()))
                .at(given.mark)
                .note(fmt::format("first given at {}", place_text(first->mark)))
                .help(fmt::format("keep one; the canonical name is `{}`", table_.settings()[i].path)));
        slots_[i].failed = true;
      }
    }
  }
}

void Layers::check_status(std::size_t index, const ResolvedConfig& config) {
  const Setting& setting = table_.settings()[index];
  const Slot& slot = slots_[index];
  if (slot.given.empty() || slot.failed) {
    return;
  }
  const Given& last = slot.given.back();
  if (std::ranges::find(setting.fine_with_backends, config.backend.training_backend) != setting.fine_with_backends.end()) {
    return;
  }
  if (const std::string* text = last.value.to_string(); text != nullptr && setting.shape == Shape::choice) {
    if (const Choice* choice = setting.find_choice(*text); choice != nullptr && !choice->not_built.empty()) {
      errors_.push_back(Error(Code::not_built, fmt::format("{} is known but not built yet: `{}`", setting.noun, *text))
                            .at(last.mark)
                            .note(choice->not_built)
                            .help("choose another one, or remove the key"));
    }
  }
  if (setting.status == Status::not_built && last.value != setting.fallback) {
    Error error =
        Error(Code::not_built, fmt::format("`{}` is known but not built yet", setting.path)).at(last.mark).note(setting.why);
    error.help(setting.fallback.is_null() ? std::string("remove it")
                                          : fmt::format("remove it, or set it to its default `{}`", setting.fallback.dump()));
    errors_.push_back(std::move(error));
  }
  if (setting.status == Status::dead && !last.value.is_null()) {
    warnings_.push_back(Error(Code::dead_setting, fmt::format("`{}` has no effect", last.spelling))
                            .at(last.mark)
                            .note(setting.why)
                            .help("remove it"));
  }
}

void Layers::check_schema_version(const ResolvedConfig& config) {
  const auto index = table_.find("schema_version");
  const Slot& slot = slots_[index.value_or(0)];
  if (slot.failed) {
    return;
  }
  if (slot.given.empty()) {
    if (has_file_) {
      warnings_.push_back(Error(Code::schema_version, "`schema_version` is missing; the file is read as version 0")
                              .help(fmt::format("add `schema_version: {}` as the first line", kSchemaVersion)));
    }
    return;
  }
  const Mark& mark = slot.given.back().mark;
  if (config.schema_version < 0 || config.schema_version > kSchemaVersion) {
    errors_.push_back(Error(Code::schema_version, fmt::format("the schema version is not supported: `{}`", config.schema_version))
                          .at(mark)
                          .note(fmt::format("supported: 0 to {}", kSchemaVersion))
                          .help(config.schema_version > kSchemaVersion
                                    ? "use a newer parascale, or write the file for this version"
                                    : fmt::format("write `schema_version: {}`", kSchemaVersion)));
  } else if (config.schema_version < kSchemaVersion) {
    warnings_.push_back(
        Error(Code::schema_version, fmt::format("`schema_version` is that of an older format: `{}`", config.schema_version))
            .at(mark)
            .help(fmt::format("write `schema_version: {}`", kSchemaVersion)));
  }
}

CrossFieldInput Layers::cross_field_input(const ResolvedConfig& config) const {
  CrossFieldInput input{.config = config, .states = {}, .sections = sections_};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    FieldState& state = input.states[table_.settings()[i].path];
    state.failed = slot.failed;
    state.explicitly_set = !slot.given.empty();
    if (!slot.given.empty()) {
      state.mark = slot.given.back().mark;
    }
  }
  return input;
}

ResolvedConfig Layers::resolve(bool complete) {
  report_conflicts();
  ResolvedConfig config;
  config.override_count = overrides_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Setting& setting = table_.settings()[i];
    ResolvedField field{
        .path = setting.path, .value = setting.fallback, .source = "default", .explicitly_set = !slots_[i].given.empty()};
    field.history.push_back({.source = "default", .priority = kDefaultPriority, .value = setting.fallback});
    for (const Given& given : slots_[i].given) {
      std::string reason = given.spelling == setting.path ? std::string() : fmt::format("given as `{}`", given.spelling);
      field.history.push_back(
          {.source = given.source, .priority = given.priority, .value = given.value, .reason = std::move(reason)});
      field.value = given.value;
      field.source = given.source;
    }
    if (setting.member.write != nullptr) {
      setting.member.write(config, field.value);
    }
    config.fields.push_back(std::move(field));
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    check_status(i, config);
  }
  check_schema_version(config);
  if (complete) {
    for (Error& error : check_cross_fields(cross_field_input(config))) {
      errors_.push_back(std::move(error));
    }
  }
  return config;
}

}  // namespace parascale::config
