#include "parascale/cli/cli.h"

#include <unistd.h>

#include <exception>

#include "parascale/cli/context.h"

namespace parascale::cli {

namespace {

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return path;
}

struct Dispatch {
  Context& context;
  int operator()(const ConfigValidateCommand& c) const { return config_validate(context, c); }
  int operator()(const ConfigShowCommand& c) const { return config_show(context, c); }
  int operator()(const PlanCommand& c) const { return plan(context, c); }
  int operator()(const TrainCommand& c) const { return train(context, c); }
  int operator()(const InferCommand& c) const { return infer(context, c); }
  int operator()(const CheckpointValidateCommand& c) const { return checkpoint_validate(context, c); }
  int operator()(const ReportCommand& c) const { return report(context, c); }
  int operator()(const DoctorCommand& c) const { return doctor(context, c); }
  int operator()(const SmokeCommand& c) const { return smoke(context, c); }
  int operator()(const DataEngineCommand& c) const { return data_engine(context, c); }
};

}  // namespace

int run_program(int argc, const char* const* argv) {
  auto parsed = parse_command_line(argc, argv);
  if (!parsed.ok()) {
    bool json = false;
    for (int i = 1; i < argc; ++i) {
      json = json || std::string_view(argv[i]) == "--json";
    }
    Console console({.json = json, .command = argc > 1 ? argv[1] : ""});
    console.error(parsed.error());
    return exit_code(parsed.error().kind());
  }
  Console console({.json = parsed->json, .quiet = parsed->quiet, .command = parsed->name});
  if (!parsed->command) {
    console.data(parsed->text);
    return 0;
  }
  Context context{.console = console, .program = own_program()};
  try {
    return std::visit(Dispatch{context}, *parsed->command);
  } catch (const std::exception& fault) {
    // Nothing of ours throws on purpose; what a library throws and nobody turned into an Error is a bug.
    return report_error(context,
                        Error(Code::internal, fault.what()).help("this is a bug; please report it with the command line"));
  }
}

}  // namespace parascale::cli
