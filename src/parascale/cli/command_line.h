#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parascale/base/ids.h"
#include "parascale/base/result.h"

// What a command line says, one struct per command. Declared once in `parse.cpp`, carried out in `<command>_command.cpp`.

namespace parascale::cli {

/// Where a config comes from.
struct ConfigSource {
  std::string path;
  std::vector<std::string> overrides;
};

struct ConfigValidateCommand {
  ConfigSource config;
  std::string output;
};
struct ConfigShowCommand {
  ConfigSource config;
  bool origins = false;
  bool all = false;
};
struct PlanCommand {
  ConfigSource config;
  std::string output;
};
struct TrainCommand {
  ConfigSource config;
  std::string plan;  ///< run exactly this plan
  bool dry_run = false;
  std::string resume;  ///< auto, a run, a root, a step directory
  std::optional<std::uint64_t> resume_step;
  std::string output;
};
struct InferCommand {
  std::string checkpoint;
  std::vector<std::string> inputs;
  std::string output;
  std::uint32_t top_k = 5;
  std::uint32_t batch_size = 32;
};
struct CheckpointValidateCommand {
  std::string checkpoint;
  std::string output;
};
struct ReportCommand {
  std::string run_dir;
};
struct DoctorCommand {
  bool strict = false;
  std::vector<std::string> require;
  std::string output;
};
struct SmokeCommand {
  ConfigSource config;
  std::string output;
  bool skip_real = false;
};
struct DataEngineCommand {};

using Command = std::variant<ConfigValidateCommand, ConfigShowCommand, PlanCommand, TrainCommand, InferCommand,
                             CheckpointValidateCommand, ReportCommand, DoctorCommand, SmokeCommand, DataEngineCommand>;

struct ParsedLine {
  std::optional<Command> command;  ///< unset: help or version was asked for and stands in `text`
  std::string name;                ///< `config validate`
  std::string text;
  bool json = false;
  bool quiet = false;
};

/// Parses the command line. Errors: usage, with the remedy.
Result<ParsedLine> parse_command_line(int argc, const char* const* argv);

}  // namespace parascale::cli
