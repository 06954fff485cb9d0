#include "parascale/run/session.h"

#include <fmt/core.h>

#include <algorithm>

#include "parascale/base/text.h"
#include "parascale/protocol/results.h"

namespace parascale::run {

namespace {

std::chrono::seconds start_deadline(const SessionOptions& options) {
  return std::chrono::seconds(options.plan.supervision.start_deadline_seconds);
}

std::uint32_t label_count(const plan::RuntimePlan& plan) {
  const Json* labels = plan.workload.model.find("id2label");
  return labels != nullptr ? static_cast<std::uint32_t>(labels->members().size()) : 1;
}

}  // namespace

Result<protocol::SlotLayout> slot_layout(const plan::RuntimePlan& plan, std::uint32_t capacity) {
  std::vector<protocol::TensorField> fields;
  for (const auto& item : plan.batch.fields.items()) {
    protocol::TensorField field;
    PS_ASSIGN(field.name, item.get<std::string>("name"));
    PS_ASSIGN(const auto dtype, item.get<std::string>("dtype"));
    const auto known = dtype_from_name(dtype);
    if (!known) {
      return Error(Code::plan_invalid, fmt::format("the batch contract names unknown dtype `{}`", dtype));
    }
    field.dtype = *known;
    PS_ASSIGN(const Json shape, item.get<Json>("sample_shape"));
    for (const auto& size : shape.items()) {
      field.sample_shape.push_back(size.to_uint64().value_or(0));
    }
    fields.push_back(std::move(field));
  }
  return protocol::make_slot_layout(std::move(fields), plan.batch.slots, capacity);
}

Result<std::unique_ptr<Session>> Session::start(const SessionOptions& options) {
  const SpawnOptions engine_options{
      .program = options.programs.engine, .arguments = {"data-engine"}, .log_path = options.paths.log("engine")};
  const SpawnOptions rank_options{.program = options.programs.worker,
                                  .log_path = options.paths.log("rank-00000"),
                                  .environment = {{"RANK", "0"},
                                                  {"LOCAL_RANK", "0"},
                                                  {"WORLD_SIZE", std::to_string(options.plan.backend.world_size)},
                                                  {"PARASCALE_DEVICE", options.plan.device.kind},
                                                  {"OMP_NUM_THREADS", std::to_string(options.plan.threads.intra_op)},
                                                  {"OMP_WAIT_POLICY", "PASSIVE"},
                                                  {"HF_HUB_OFFLINE", "1"},
                                                  {"TRANSFORMERS_OFFLINE", "1"}}};
  PS_ASSIGN(auto rank_peer, Peer::start(Peer::Role::rank, rank_options));
  PS_ASSIGN(auto engine_peer, Peer::start(Peer::Role::engine, engine_options));
  std::unique_ptr<Session> session(new Session(std::move(engine_peer), std::move(rank_peer)));
  PS_ASSIGN(session->layout, slot_layout(options.plan, options.slot_capacity));
  PS_ASSIGN(session->batches, protocol::Region::make("batches", session->layout.region_bytes()));
  PS_ASSIGN(session->pulse, protocol::Region::make("pulse", protocol::kPulseBytes));
  session->results_layout =
      protocol::make_results_layout(session->layout.slot_count, session->layout.capacity, label_count(options.plan));
  PS_ASSIGN(session->results, protocol::Region::make("results", session->results_layout.region_bytes()));
  // Both build side by side: the requests go out before either answer is awaited.
  PS_TRY(session->open_engine(options));
  PS_TRY(session->open_rank(options));
  PS_TRY(session->finish_engine(options));
  PS_TRY(session->finish_rank(options));
  return session;
}

Status Session::open_engine(const SessionOptions& options) {
  PS_ASSIGN(const auto hello, engine.expect_hello(start_deadline(options)));
  Json splits = Json::array();
  for (const auto split : options.splits) {
    splits.push_back(data::split_name(split));
  }
  return engine.channel().send(Json::object({{"type", "open"},
                                             {"options", options.data.to_json()},
                                             {"layout", layout.to_json()},
                                             {"splits", std::move(splits)},
                                             {"descriptors", 1}}),
                               {batches.fd()});
}

Status Session::open_rank(const SessionOptions& options) {
  PS_ASSIGN(rank_hello, rank.expect_hello(start_deadline(options)));
  auto& channel = rank.channel();
  PS_TRY(channel.send(protocol::region_message("batches", batches.size(), layout.to_json()), {batches.fd()}));
  PS_TRY(channel.send(protocol::region_message("pulse", pulse.size()), {pulse.fd()}));
  PS_TRY(channel.send(protocol::region_message("results", results.size(), results_layout.to_json()), {results.fd()}));
  const Json plan = options.plan.to_json();
  const Json* hash = plan.find("hash");
  return channel.send(
      Json::object({{"type", "init"}, {"plan", plan}, {"plan_hash", *hash}, {"seed", options.plan.training.seed}}));
}

Status Session::finish_engine(const SessionOptions& options) {
  PS_ASSIGN(const auto opened, engine.expect("opened", start_deadline(options)));
  PS_ASSIGN(const Json splits, opened.message.get<Json>("splits"));
  for (const auto& [name, summary] : splits.members()) {
    if (const auto split = data::split_from_name(name)) {
      PS_ASSIGN(summaries[*split], data::DatasetSummary::from_json(summary));
    }
  }
  return {};
}

Status Session::finish_rank(const SessionOptions& options) {
  PS_ASSIGN(const auto ready, rank.expect("ready", start_deadline(options)));
  PS_ASSIGN(const Json state, ready.message.get<Json>("state"));
  for (const auto& item : state.items()) {
    PS_ASSIGN(auto entry, protocol::StateEntry::from_json(item));
    inventory.push_back(std::move(entry));
  }
  return {};
}

Status Session::share_arena(std::uint64_t bytes) {
  PS_ASSIGN(arena, protocol::Region::make("snapshot", bytes));
  arena.populate();
  return rank.channel().send(protocol::region_message("snapshot", arena.size()), {arena.fd()});
}

Status Session::load(const checkpoint::OpenedCheckpoint& opened, LoadState what, std::chrono::seconds deadline) {
  std::map<std::string_view, const protocol::StateEntry*> wanted;
  for (const auto& entry : inventory) {
    wanted[entry.name] = &entry;
  }
  Json tensors = Json::array();
  for (const auto& source : opened.tensors) {
    const auto found = wanted.find(source.name);
    if (found == wanted.end()) {
      continue;  // the rank reports what it misses; what it does not know is of no use to it
    }
    if (found->second->global_shape != source.global_shape || found->second->dtype != source.dtype) {
      return Error(Code::state_mismatch, fmt::format("tensor `{}` has another shape or dtype than the model's", source.name))
          .note(fmt::format("checkpoint: {}", opened.directory))
          .help("use the checkpoint with the model it was made by");
    }
    PS_ASSIGN(const std::string path, absolute_path(source.file));
    tensors.push_back(Json::object({{"name", source.name},
                                    {"file", path},
                                    {"offset", source.offset_bytes},
                                    {"bytes", source.size_bytes},
                                    {"slice", Json()}}));
  }
  const bool strict = what == LoadState::all;
  PS_TRY(rank.channel().send(Json::object({{"type", "load"}, {"tensors", std::move(tensors)}, {"strict", strict}})));
  PS_ASSIGN(const auto loaded, rank.expect("loaded", deadline));
  std::vector<std::string> faults;
  for (const char* list : {"missing", "unexpected", "mismatched"}) {
    const Json* names = loaded.message.find(list);
    for (const auto& name : names != nullptr ? names->items() : Json::Array()) {
      const std::string* text = name.to_string();
      const auto entry = text != nullptr ? wanted.find(*text) : wanted.end();
      const bool counts = entry == wanted.end() || entry->second->kind == "param" || entry->second->kind == "buffer" || strict;
      if (text != nullptr && counts) {
        faults.push_back(fmt::format("{}: `{}`", list, *text));
      }
    }
  }
  if (!faults.empty()) {
    Error error(Code::state_mismatch,
                fmt::format("the checkpoint does not fit the model: {}", format_count(faults.size(), "tensor")));
    for (std::size_t i = 0; i < std::min<std::size_t>(faults.size(), 10); ++i) {
      error.note(faults[i]);
    }
    return std::move(error).note(fmt::format("checkpoint: {}", opened.directory));
  }
  return {};
}

}  // namespace parascale::run
