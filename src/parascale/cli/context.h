#pragma once

#include <string>
#include <vector>

#include "parascale/base/console.h"
#include "parascale/base/file_system.h"
#include "parascale/cli/command_line.h"
#include "parascale/config/config.h"
#include "parascale/plan/plan.h"
#include "parascale/run/run.h"

namespace parascale::cli {

/// What every command gets. *confined to the main thread*
struct Context {
  Console& console;
  FileSystem& files = real_file_system();
  std::string program;  ///< this binary

  bool json() const { return console.options().json; }
  /// The program beside this one.
  std::string sibling(const std::string& name) const { return join_path(parent_path(program), name); }
};

/// What is known of this installation and machine.
plan::Capabilities capabilities(const Context& context);
plan::Machine machine(const Context& context);
run::Programs programs(const Context& context, const std::string& worker_kind);

/// Loads a config; on mistakes prints all of them and returns nothing (the exit code is 2).
std::optional<config::ResolvedConfig> load_or_report(Context& context, const ConfigSource& source);

/// A config with its plan.
struct Planned {
  config::ResolvedConfig config;
  plan::RuntimePlan plan;
};
/// Loads, reads the data index (building it with progress when there is none), plans; prints every mistake. `exit` is set when
/// there is no plan.
std::optional<Planned> plan_or_report(Context& context, const ConfigSource& source, int& exit);

/// Prints errors, the summary line, and returns the exit code of the first.
int report_errors(Context& context, const std::vector<Error>& errors, std::string_view subject);
/// Prints one error and returns its exit code.
int report_error(Context& context, const Error& error);
/// Writes a JSON payload to `output`, making its directory; without `output` prints it when `--json` was given.
Status deliver(Context& context, const Json& payload, const std::string& output);

int config_validate(Context& context, const ConfigValidateCommand& command);
int config_show(Context& context, const ConfigShowCommand& command);
int plan(Context& context, const PlanCommand& command);
int train(Context& context, const TrainCommand& command);
int infer(Context& context, const InferCommand& command);
int checkpoint_validate(Context& context, const CheckpointValidateCommand& command);
int report(Context& context, const ReportCommand& command);
int doctor(Context& context, const DoctorCommand& command);
int smoke(Context& context, const SmokeCommand& command);
int data_engine(Context& context, const DataEngineCommand& command);

}  // namespace parascale::cli
