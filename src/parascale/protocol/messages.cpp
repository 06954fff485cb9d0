#include "parascale/protocol/messages.h"

#include <fmt/core.h>
#include <unistd.h>

#include <limits>

#include "parascale/base/text.h"
#include "parascale/protocol/frame.h"

namespace parascale::protocol {

namespace {

std::string major_of(std::string_view version) { return split(version, '.').front(); }

Result<std::map<std::string, std::int64_t>> read_times(const Json& json, std::string_view key) {
  std::map<std::string, std::int64_t> times;
  const Json* found = json.find(key);
  if (found != nullptr) {
    for (const auto& [name, value] : found->members()) {
      const auto number = value.to_int64();
      if (!number) {
        return Error(Code::protocol_violation, fmt::format("time `{}` is no integer", name));
      }
      const bool suffixed = name.ends_with("_ns");
      times[suffixed ? name.substr(0, name.size() - 3) : name] = *number;
    }
  }
  return times;
}

/// A number that was measured: JSON has no infinities, so null stands for one that is not finite.
Result<double> read_measured(const Json& json, std::string_view key) {
  const Json* found = json.find(key);
  if (found != nullptr && found->is_null()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return json.get<double>(key);
}

Json times_json(const std::map<std::string, std::int64_t>& times) {
  Json json = Json::object();
  for (const auto& [name, value] : times) {
    json[name] = value;
  }
  return json;
}

}  // namespace

Json Hello::to_json() const {
  return Json::object({{"type", "hello"},
                       {"protocol", protocol},
                       {"role", role},
                       {"pid", pid},
                       {"torch", torch},
                       {"capabilities", capabilities}});
}

Result<Hello> Hello::from_json(const Json& json) {
  Hello hello;
  PS_ASSIGN(hello.protocol, json.get<std::string>("protocol"));
  PS_ASSIGN(hello.role, json.get_or<std::string>("role", ""));
  PS_ASSIGN(hello.pid, json.get_or<std::int64_t>("pid", 0));
  PS_ASSIGN(hello.torch, json.get_or<std::string>("torch", ""));
  PS_ASSIGN(hello.capabilities, json.get_or<Json>("capabilities", Json()));
  return hello;
}

Status check_version(const Hello& hello) {
  if (major_of(hello.protocol) != major_of(kProtocolVersion)) {
    return Error(Code::version_mismatch, fmt::format("peer `{}` speaks protocol {}; this program speaks {}", hello.role,
                                                     hello.protocol, kProtocolVersion))
        .help("install agent and workers of the same release");
  }
  return {};
}

Json StateEntry::to_json() const {
  return Json::object({{"name", name},
                       {"kind", kind},
                       {"dtype", dtype_name(dtype)},
                       {"global_shape", Json::array_of(global_shape)},
                       {"slice", Json()},
                       {"trainable", trainable},
                       {"group", group},
                       {"alias_of", alias_of.empty() ? Json() : Json(alias_of)}});
}

Result<StateEntry> StateEntry::from_json(const Json& json) {
  StateEntry entry;
  PS_ASSIGN(entry.name, json.get<std::string>("name"));
  PS_ASSIGN(entry.kind, json.get<std::string>("kind"));
  PS_ASSIGN(const auto dtype, json.get<std::string>("dtype"));
  const auto known = dtype_from_name(dtype);
  if (!known) {
    return Error(Code::protocol_violation, fmt::format("tensor `{}` has unknown dtype `{}`", entry.name, dtype));
  }
  entry.dtype = *known;
  PS_ASSIGN(const Json shape, json.get<Json>("global_shape"));
  for (const auto& size : shape.items()) {
    const auto value = size.to_uint64();
    if (!value) {
      return Error(Code::protocol_violation, fmt::format("tensor `{}` has a size that is no number", entry.name));
    }
    entry.global_shape.push_back(*value);
  }
  PS_ASSIGN(entry.trainable, json.get_or<bool>("trainable", false));
  PS_ASSIGN(entry.group, json.get_or<std::string>("group", ""));
  PS_ASSIGN(entry.alias_of, json.get_or<std::string>("alias_of", ""));
  return entry;
}

Json StepDone::to_json() const {
  Json terms_json = Json::array();
  for (const auto& term : terms) {
    terms_json.push_back(Json::object({{"name", term.name}, {"sum", term.sum}, {"weight", term.weight}}));
  }
  Json json = Json::object({{"type", "step_done"},
                            {"t", step.value},
                            {"terms", std::move(terms_json)},
                            {"grad_norm", grad_norm},
                            {"skipped", skipped},
                            {"scaler", Json()},
                            {"times", times_json(times_ns)},
                            {"memory", Json::object({{"rss_bytes", rss_bytes}, {"peak_bytes", peak_bytes}})}});
  if (!no_grad.empty()) {
    json["audit"] = Json::object({{"no_grad", Json::array_of(no_grad)}});
  }
  return json;
}

Result<StepDone> StepDone::from_json(const Json& json) {
  StepDone done;
  PS_ASSIGN(done.step.value, json.get<std::uint64_t>("t"));
  if (const Json* terms = json.find("terms")) {
    for (const auto& item : terms->items()) {
      Term term;
      PS_ASSIGN(term.name, item.get<std::string>("name"));
      PS_ASSIGN(term.sum, read_measured(item, "sum"));
      PS_ASSIGN(term.weight, item.get<double>("weight"));
      done.terms.push_back(std::move(term));
    }
  }
  if (json.contains("grad_norm")) {
    PS_ASSIGN(done.grad_norm, read_measured(json, "grad_norm"));
  }
  PS_ASSIGN(done.skipped, json.get_or<bool>("skipped", false));
  PS_ASSIGN(done.times_ns, read_times(json, "times"));
  if (const Json* memory = json.find("memory")) {
    PS_ASSIGN(done.rss_bytes, memory->get_or<std::uint64_t>("rss_bytes", 0));
    PS_ASSIGN(done.peak_bytes, memory->get_or<std::uint64_t>("peak_bytes", 0));
  }
  if (const Json* audit = json.find("audit")) {
    if (const Json* names = audit->find("no_grad")) {
      for (const auto& name : names->items()) {
        if (name.to_string() != nullptr) {
          done.no_grad.push_back(*name.to_string());
        }
      }
    }
  }
  return done;
}

Json Fill::to_json() const {
  return Json::object({{"type", "fill"},
                       {"slot", slot},
                       {"split", split},
                       {"t", step.value},
                       {"k", micro_step},
                       {"rank", rank.value},
                       {"epoch", epoch},
                       {"first", first},
                       {"count", count}});
}

Result<Fill> Fill::from_json(const Json& json) {
  Fill fill;
  PS_ASSIGN(fill.slot, json.get<std::uint32_t>("slot"));
  PS_ASSIGN(fill.split, json.get<std::string>("split"));
  PS_ASSIGN(fill.step.value, json.get_or<std::uint64_t>("t", 0));
  PS_ASSIGN(fill.micro_step, json.get_or<std::uint32_t>("k", 0));
  PS_ASSIGN(fill.rank.value, json.get_or<std::uint32_t>("rank", 0));
  PS_ASSIGN(fill.epoch, json.get_or<std::uint64_t>("epoch", 0));
  PS_ASSIGN(fill.first, json.get<std::uint64_t>("first"));
  PS_ASSIGN(fill.count, json.get<std::uint32_t>("count"));
  return fill;
}

Json SampleFailure::to_json() const {
  return Json::object({{"id", id.value}, {"reason", reason}, {"replacement", replacement ? Json(replacement->value) : Json()}});
}

Result<SampleFailure> SampleFailure::from_json(const Json& json) {
  SampleFailure failure;
  PS_ASSIGN(failure.id.value, json.get<std::uint64_t>("id"));
  PS_ASSIGN(failure.reason, json.get<std::string>("reason"));
  const Json* replacement = json.find("replacement");
  if (replacement != nullptr && !replacement->is_null()) {
    PS_ASSIGN(const auto id, json.get<std::uint64_t>("replacement"));
    failure.replacement = SampleId{id};
  }
  return failure;
}

Json Filled::to_json() const {
  Json failures_json = Json::array();
  for (const auto& failure : failures) {
    failures_json.push_back(failure.to_json());
  }
  return Json::object({{"type", "filled"},
                       {"slot", slot},
                       {"split", split},
                       {"t", step.value},
                       {"k", micro_step},
                       {"valid", valid},
                       {"replaced", replaced},
                       {"failures", std::move(failures_json)},
                       {"times", times_json(times_ns)},
                       {"batch_hash", batch_hash},
                       {"cpu_ns", cpu_ns}});
}

Result<Filled> Filled::from_json(const Json& json) {
  Filled filled;
  PS_ASSIGN(filled.slot, json.get<std::uint32_t>("slot"));
  PS_ASSIGN(filled.split, json.get<std::string>("split"));
  PS_ASSIGN(filled.step.value, json.get_or<std::uint64_t>("t", 0));
  PS_ASSIGN(filled.micro_step, json.get_or<std::uint32_t>("k", 0));
  PS_ASSIGN(filled.valid, json.get<std::uint32_t>("valid"));
  PS_ASSIGN(filled.replaced, json.get_or<std::uint32_t>("replaced", 0));
  if (const Json* failures = json.find("failures")) {
    for (const auto& item : failures->items()) {
      PS_ASSIGN(auto failure, SampleFailure::from_json(item));
      filled.failures.push_back(std::move(failure));
    }
  }
  PS_ASSIGN(filled.times_ns, read_times(json, "times"));
  PS_ASSIGN(filled.batch_hash, json.get<std::string>("batch_hash"));
  PS_ASSIGN(filled.cpu_ns, json.get_or<std::int64_t>("cpu_ns", 0));
  return filled;
}

Json WorkerError::to_json() const {
  return Json::object({{"type", "error"},
                       {"class", error_class},
                       {"phase", phase},
                       {"step", step},
                       {"micro", micro_step},
                       {"message", message},
                       {"stack", stack}});
}

Result<WorkerError> WorkerError::from_json(const Json& json) {
  WorkerError error;
  PS_ASSIGN(error.error_class, json.get<std::string>("class"));
  PS_ASSIGN(error.phase, json.get_or<std::string>("phase", ""));
  PS_ASSIGN(error.step, json.get_or<std::uint64_t>("step", 0));
  PS_ASSIGN(error.micro_step, json.get_or<std::uint32_t>("micro", 0));
  PS_ASSIGN(error.message, json.get<std::string>("message"));
  PS_ASSIGN(error.stack, json.get_or<std::string>("stack", ""));
  return error;
}

Json region_message(std::string_view name, std::uint64_t bytes, Json layout) {
  return Json::object({{"type", "region"}, {"name", name}, {"bytes", bytes}, {"layout", std::move(layout)}, {"descriptors", 1}});
}

}  // namespace parascale::protocol
