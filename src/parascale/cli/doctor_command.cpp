#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "parascale/base/text.h"
#include "parascale/base/version.h"
#include "parascale/cli/context.h"

namespace parascale::cli {

namespace {

struct Check {
  std::string name;
  bool ok = false;
  bool required = false;
  std::string message;
  Json evidence = Json::object();
  std::string remedy;
};

Check core_check(const plan::Machine& machine) {
  return {.name = "core",
          .ok = true,
          .message = fmt::format("parascale {} on {}, {}, {}", kVersion, machine.host_class, format_count(machine.cores, "core"),
                                 format_bytes(machine.memory_bytes)),
          .evidence = Json::object(
              {{"cores", machine.cores}, {"memory_bytes", machine.memory_bytes}, {"host_class", machine.host_class}})};
}

Check torch_check(const Context& context, const plan::Machine& machine) {
  Check check{.name = "torch", .remedy = "run `make build`, which installs torch into `.venv` and builds the worker"};
  const auto known = capabilities(context);
  const auto& worker = known.workers.front();
  check.ok = worker.available && !machine.torch_version.empty();
  check.message = check.ok           ? fmt::format("torch {}, C++ worker `{}`", machine.torch_version, worker.program)
                  : worker.available ? "the worker's torch version is not recorded"
                                     : worker.reason;
  check.evidence = Json::object({{"worker", worker.program}, {"version", machine.torch_version}});
  return check;
}

Check absent_check(const std::string& name, const std::string& message, const std::string& remedy) {
  return {.name = name, .ok = false, .message = message, .remedy = remedy};
}

Json rank_environment() {
  Json json = Json::object();
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (const char* value = std::getenv(name)) {
      json[name] = value;
    }
  }
  return json;
}

Json device_json(const plan::Machine& machine) {
  return Json::array({Json::object({{"name", "cpu"},
                                    {"accelerator", false},
                                    {"communication", "gloo"},
                                    {"available", true},
                                    {"supports_bf16", false},
                                    {"supports_flash_attention", false},
                                    {"device_count", 1},
                                    {"memory", Json::object({{"total_bytes", machine.memory_bytes}})}})});
}

Json payload(const plan::Machine& machine, const std::vector<Check>& checks, const std::vector<std::string>& required, bool ok) {
  Json checks_json = Json::object();
  bool torch_ok = false;
  for (const auto& check : checks) {
    checks_json[check.name] =
        Json::object({{"ok", check.ok}, {"required", check.required}, {"message", check.message}, {"evidence", check.evidence}});
    torch_ok = torch_ok || (check.name == "torch" && check.ok);
  }
  return Json::object(
      {{"format_version", 1},
       {"mode", "doctor"},
       {"runtime_status", "diagnostic"},
       {"version", kVersion},
       {"python",
        Json::object(
            {{"version", Json()}, {"implementation", Json()}, {"executable", Json()}, {"platform", machine.host_class}})},
       {"dependencies", Json::object({{"torch", torch_ok}, {"torch_npu", false}, {"deepspeed", false}, {"yaml", true}})},
       {"torch_runtime", Json::object({{"available", torch_ok},
                                       {"version", machine.torch_version.empty() ? Json() : Json(machine.torch_version)},
                                       {"cuda_available", false},
                                       {"cuda_version", Json()},
                                       {"cuda_device_count", 0},
                                       {"cuda_devices", Json::array()},
                                       {"bf16_supported", false}})},
       {"distributed_runtime",
        Json::object({{"available", false},
                      {"initialized", false},
                      {"recommended_backends", Json::object({{"gloo", false}, {"nccl", false}, {"hccl", false}})}})},
       {"ascend_runtime", Json::object({{"available", false}, {"device_count", 0}, {"reason", "not built yet"}})},
       {"device_backends", device_json(machine)},
       {"rank_env", rank_environment()},
       {"notes", Json::array()},
       {"ok", ok},
       {"requirements", Json::array_of(required)},
       {"checks", std::move(checks_json)}});
}

}  // namespace

int doctor(Context& context, const DoctorCommand& command) {
  const plan::Machine found = machine(context);
  std::vector<Check> checks = {
      core_check(found),
      torch_check(context, found),
      absent_check("distributed", "data parallel ranks are not built yet", "use one rank: `training_backend: native`"),
      absent_check("cuda", "CUDA devices are not built yet", "use `runtime.device: cpu`"),
      absent_check("deepspeed", "the Python worker is not built yet", "use `training_backend: native`"),
      absent_check("npu", "the Python worker is not built yet", "use `runtime.device: cpu`")};
  std::vector<std::string> required = command.require;
  if (command.strict) {
    required.insert(required.begin(), {"core", "torch"});
  }
  bool ok = true;
  std::vector<Error> unmet;
  for (const auto& name : required) {
    const auto check = std::ranges::find(checks, name, &Check::name);
    if (check == checks.end()) {
      return report_error(context, Error(Code::usage, fmt::format("unknown capability `{}`", name))
                                       .note("known: core, torch, distributed, cuda, deepspeed, npu"));
    }
    check->required = true;
    if (!check->ok) {
      ok = false;
      unmet.push_back(Error(Code::requirement_unmet, fmt::format("`{}` is required and missing: {}", name, check->message))
                          .help(check->remedy));
    }
  }
  if (const Status delivered = deliver(context, payload(found, checks, required, ok), command.output); !delivered.ok()) {
    return report_error(context, delivered.error());
  }
  if (!context.json()) {
    for (const auto& check : checks) {
      context.console.data(fmt::format("{:<4} {:<12} {}{}\n",
                                       check.ok         ? "ok"
                                       : check.required ? "FAIL"
                                                        : "-",
                                       check.name, check.message, check.required ? " (required)" : ""));
    }
  }
  for (const auto& error : unmet) {
    context.console.error(error);
  }
  return ok ? 0 : exit_code(ErrorKind::config);
}

}  // namespace parascale::cli
