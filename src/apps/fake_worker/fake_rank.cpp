#include "fake_rank.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"

namespace parascale::fake {

namespace {

constexpr std::size_t kSize = 64;
constexpr const char* kWeight = "fake.weight";
constexpr const char* kMoment = "exp_avg.fake.weight";

/// A number in [-1, 1) from a hash and a position: enough to make every batch leave its trace.
float pseudo(std::uint64_t seed, std::uint64_t position) {
  const std::array<std::uint64_t, 2> key{seed, position};
  return static_cast<float>(static_cast<double>(xxh3_64(std::as_bytes(std::span(key))) >> 11) * 0x1.0p-52 - 1.0);
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  for (const auto& part : split(text, ',')) {
    const auto at = split(part, '@');
    if (!part.empty()) {
      faults.push_back({.kind = at[0], .step = at.size() > 1 ? parse_uint64(at[1]).value_or(0) : 0});
    }
  }
  return faults;
}

FakeRank::FakeRank(protocol::Channel channel, std::vector<Fault> faults)
    : channel_(std::move(channel)), faults_(std::move(faults)) {}

std::span<float> FakeRank::tensor(const std::string& name) { return state_.at(name); }

void FakeRank::play(std::string_view kind, std::uint64_t step) {
  for (const auto& fault : faults_) {
    if (fault.kind == kind && fault.step == step) {
      if (kind == "die") {
        ::raise(SIGKILL);
      } else if (kind == "exit") {
        fmt::print(stderr, "fake worker: leaving at step {} on purpose\n", step);
        std::fflush(stderr);
        ::_exit(9);
      } else if (kind == "hang") {
        fmt::print(stderr, "fake worker: hanging at step {} on purpose\n", step);
        std::fflush(stderr);
        while (true) {
          ::pause();
        }
      }
    }
  }
}

int FakeRank::serve() {
  const bool foreign = std::ranges::any_of(faults_, [](const Fault& f) { return f.kind == "version"; });
  const protocol::Hello hello{.protocol = foreign ? "9.0" : std::string(protocol::kProtocolVersion),
                              .role = "fake",
                              .pid = getpid(),
                              .capabilities = Json::object({{"worker", "fake"}})};
  if (!send(hello.to_json()).ok()) {
    return 4;
  }
  while (!stopped_) {
    auto frame = channel_.receive();
    if (!frame.ok()) {
      fmt::print(stderr, "fake worker: {}\n", frame.error().message());
      return 4;
    }
    if (!*frame) {
      return 0;  // the agent is gone
    }
    if (const Status status = handle(std::move(**frame)); !status.ok()) {
      fmt::print(stderr, "fake worker: {}\n", status.error().message());
      const protocol::WorkerError error{.error_class = status.error().code() == Code::nonfinite          ? "nan"
                                                       : status.error().code() == Code::version_mismatch ? "version"
                                                       : status.error().code() == Code::state_mismatch   ? "state"
                                                                                                         : "internal",
                                        .phase = "forward",
                                        .step = step_,
                                        .message = status.error().message()};
      (void)send(error.to_json());  // the exit code says the same
      return status.error().code() == Code::version_mismatch ? 3 : 4;
    }
  }
  return 0;
}

Status FakeRank::handle(protocol::Frame frame) {
  const std::string type = frame.type();
  const Json& message = frame.message;
  if (type == "hello") {
    PS_ASSIGN(const auto hello, protocol::Hello::from_json(message));
    return protocol::check_version(hello);
  }
  if (type == "region") {
    return on_region(std::move(frame));
  }
  if (type == "init") {
    return on_init(message);
  }
  if (type == "load") {
    return on_load(message);
  }
  if (type == "step") {
    return on_step(message);
  }
  if (type == "micro") {
    return on_micro(message);
  }
  if (type == "finish") {
    return on_finish(message);
  }
  if (type == "eval") {
    return on_eval(message, false);
  }
  if (type == "infer") {
    return on_eval(message, true);
  }
  if (type == "snapshot") {
    return on_snapshot(message);
  }
  if (type == "stop") {
    stopped_ = true;
    return send(Json::object({{"type", "bye"}, {"summary", Json::object({{"step", step_}})}}));
  }
  if (message.contains("id")) {
    return send(Json::object({{"type", "unsupported"}, {"id", *message.find("id")}}));
  }
  return {};
}

Status FakeRank::on_region(protocol::Frame frame) {
  PS_ASSIGN(const auto name, frame.message.get<std::string>("name"));
  PS_ASSIGN(const auto bytes, frame.message.get<std::uint64_t>("bytes"));
  if (frame.descriptors.size() != 1) {
    return Error(Code::protocol_violation, fmt::format("region `{}` came without its descriptor", name));
  }
  const auto access = name == "batches" ? protocol::Access::read : protocol::Access::read_write;
  PS_ASSIGN(auto region, protocol::Region::map(std::move(frame.descriptors.front()), bytes, access));
  if (name == "batches") {
    PS_ASSIGN(const Json layout, frame.message.get<Json>("layout"));
    PS_ASSIGN(layout_, protocol::SlotLayout::from_json(layout));
    if (layout_->region_bytes() > region.size()) {
      return Error(Code::protocol_violation, "the batch ring is smaller than its layout");
    }
  } else if (name == "results") {
    PS_ASSIGN(const Json layout, frame.message.get<Json>("layout"));
    PS_ASSIGN(results_, protocol::ResultsLayout::from_json(layout));
  }
  regions_[name] = std::move(region);
  if (name == "pulse") {
    pulse_.emplace(regions_["pulse"].bytes());
    pulse_->enter(protocol::Phase::idle, 0, 0);
  }
  return {};
}

Status FakeRank::on_init(const Json& message) {
  PS_ASSIGN(const auto seed, message.get<std::uint64_t>("seed"));
  state_[kWeight].resize(kSize);
  state_[kMoment].assign(kSize, 0.0F);
  for (std::size_t i = 0; i < kSize; ++i) {
    state_[kWeight][i] = pseudo(seed, i);
  }
  Json state = Json::array();
  state.push_back(protocol::StateEntry{
      .name = kWeight, .kind = "param", .dtype = Dtype::f32, .global_shape = {kSize}, .trainable = true, .group = "decay"}
                      .to_json());
  state.push_back(
      protocol::StateEntry{.name = kMoment, .kind = "moment", .dtype = Dtype::f32, .global_shape = {kSize}}.to_json());
  return send(Json::object({{"type", "ready"}, {"state", std::move(state)}, {"memory", Json::object()}}));
}

Status FakeRank::on_load(const Json& message) {
  Json missing = Json::array();
  Json mismatched = Json::array();
  std::vector<std::string> seen;
  PS_ASSIGN(const Json tensors, message.get<Json>("tensors"));
  for (const auto& item : tensors.items()) {
    PS_ASSIGN(const auto name, item.get<std::string>("name"));
    PS_ASSIGN(const auto path, item.get<std::string>("file"));
    PS_ASSIGN(const auto offset, item.get<std::uint64_t>("offset"));
    PS_ASSIGN(const auto bytes, item.get<std::uint64_t>("bytes"));
    const auto found = state_.find(name);
    if (found == state_.end() || bytes != kSize * sizeof(float)) {
      mismatched.push_back(name);
      continue;
    }
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid() || pread(fd.get(), found->second.data(), bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) {
      mismatched.push_back(name);
    }
    seen.push_back(name);
  }
  for (const auto& [name, values] : state_) {
    if (std::ranges::find(seen, name) == seen.end()) {
      missing.push_back(name);
    }
  }
  return send(
      Json::object({{"type", "loaded"}, {"missing", missing}, {"unexpected", Json::array()}, {"mismatched", mismatched}}));
}

Status FakeRank::on_step(const Json& message) {
  PS_ASSIGN(step_, message.get<std::uint64_t>("t"));
  PS_ASSIGN(lr_, message.get<double>("lr"));
  const Json* flags = message.find("flags");
  audit_ = false;
  if (flags != nullptr) {
    PS_ASSIGN(audit_, flags->get_or<bool>("audit", false));
  }
  gradient_.fill(0.0F);
  loss_sum_ = weight_ = 0.0;
  pulse_->enter(protocol::Phase::wait_data, step_, 0);
  return {};
}

Status FakeRank::on_micro(const Json& message) {
  PS_ASSIGN(const auto slot, message.get<std::uint32_t>("slot"));
  PS_ASSIGN(const auto micro, message.get<std::uint32_t>("k"));
  if (!layout_ || slot >= layout_->slot_count) {
    return Error(Code::protocol_violation, fmt::format("slot {} lies outside the ring", slot));
  }
  pulse_->enter(protocol::Phase::forward, step_, micro);
  play("die", step_);
  play("exit", step_);
  play("hang", step_);
  for (const auto& fault : faults_) {
    if (fault.step == step_ && fault.kind == "nan") {
      return Error(Code::nonfinite, "loss is not finite: nan");
    }
    if (fault.step == step_ && fault.kind == "error") {
      return Error(Code::internal, "a fault was asked for");
    }
  }
  PS_ASSIGN(
      const auto view,
      protocol::read_slot(
          std::span<const std::byte>(regions_["batches"].bytes()).subspan(slot * layout_->slot_bytes, layout_->slot_bytes)));
  const auto weights = tensor(kWeight);
  for (std::size_t i = 0; i < kSize; ++i) {
    gradient_[i] += pseudo(view.header.content_hash, i) + 0.01F * weights[i];
  }
  loss_sum_ +=
      static_cast<double>(view.header.valid_count) * (1.0 + static_cast<double>(pseudo(view.header.content_hash, kSize)));
  weight_ += view.header.valid_count;
  pulse_->add_samples(view.header.valid_count);
  return send(Json::object({{"type", "release"}, {"slot", slot}}));
}

Status FakeRank::on_finish(const Json&) {
  pulse_->enter(protocol::Phase::optimizer, step_, 0);
  const auto weights = tensor(kWeight);
  const auto moments = tensor(kMoment);
  double norm = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {
    moments[i] = 0.9F * moments[i] + gradient_[i];
    weights[i] -= static_cast<float>(lr_) * moments[i];
    norm += static_cast<double>(gradient_[i]) * static_cast<double>(gradient_[i]);
  }
  protocol::StepDone done{
      .step = Step{step_}, .terms = {{.name = "loss", .sum = loss_sum_, .weight = weight_}}, .grad_norm = std::sqrt(norm)};
  done.times_ns = {{"forward", 0}, {"backward", 0}, {"optimizer", 0}, {"wait", 0}};
  if (audit_ && std::ranges::any_of(faults_, [](const Fault& f) { return f.kind == "no_grad"; })) {
    done.no_grad = {"fake.unused"};
  }
  pulse_->enter(protocol::Phase::idle, step_, 0);
  return send(done.to_json());
}

Status FakeRank::on_eval(const Json& message, bool infer) {
  PS_ASSIGN(const auto slot, message.get<std::uint32_t>("slot"));
  PS_ASSIGN(const auto id, message.get<std::uint64_t>("id"));
  if (!layout_ || !results_ || slot >= layout_->slot_count) {
    return Error(Code::protocol_violation, fmt::format("slot {} lies outside the ring", slot));
  }
  pulse_->enter(protocol::Phase::infer, step_, 0);
  PS_ASSIGN(
      const auto view,
      protocol::read_slot(
          std::span<const std::byte>(regions_["batches"].bytes()).subspan(slot * layout_->slot_bytes, layout_->slot_bytes)));
  const auto ids = view.ids.first(view.header.valid_count);
  std::vector<float> logits;
  double top1 = 0.0;
  for (const std::uint64_t sample : ids) {
    for (std::uint32_t column = 0; column < results_->columns; ++column) {
      logits.push_back(pseudo(sample, column));
    }
    top1 += sample % 2 == 0 ? 1.0 : 0.0;
  }
  protocol::write_results(*results_, regions_["results"].bytes(), slot, ids, logits);
  const double rows = static_cast<double>(ids.size());
  Json answer = infer ? Json::object({{"type", "result"}, {"id", id}, {"slot", slot}, {"rows", ids.size()}})
                      : Json::object({{"type", "eval_done"},
                                      {"id", id},
                                      {"sums", Json::object({{"loss", rows * std::abs(static_cast<double>(tensor(kWeight)[0]))},
                                                             {"top1", top1},
                                                             {"top5", rows}})},
                                      {"weights", Json::object({{"loss", rows}, {"top1", rows}, {"top5", rows}})},
                                      {"slot", slot},
                                      {"rows", ids.size()}});
  channel_.queue(answer);
  pulse_->enter(protocol::Phase::idle, step_, 0);
  return send(Json::object({{"type", "release"}, {"slot", slot}}));
}

Status FakeRank::on_snapshot(const Json& message) {
  pulse_->enter(protocol::Phase::snapshot, step_, 0);
  PS_ASSIGN(const Json assign, message.get<Json>("assign"));
  const std::span<std::byte> arena = regions_["snapshot"].bytes();
  Json pieces = Json::array();
  for (const auto& item : assign.items()) {
    PS_ASSIGN(const auto name, item.get<std::string>("name"));
    PS_ASSIGN(const auto offset, item.get<std::uint64_t>("offset"));
    const auto found = state_.find(name);
    if (found == state_.end() || offset > arena.size() || arena.size() - offset < kSize * sizeof(float)) {
      return Error(Code::protocol_violation, fmt::format("piece `{}` lies outside the arena", name));
    }
    std::memcpy(arena.data() + offset, found->second.data(), kSize * sizeof(float));
    pieces.push_back(Json::object({{"name", name}, {"offset", offset}, {"bytes", kSize * sizeof(float)}}));
  }
  PS_ASSIGN(const auto t, message.get<std::uint64_t>("t"));
  pulse_->enter(protocol::Phase::idle, step_, 0);
  return send(Json::object({{"type", "snapshot_ready"}, {"t", t}, {"pieces", std::move(pieces)}}));
}

}  // namespace parascale::fake
