#include "rank_harness.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "parascale/base/file_system.h"
#include "parascale/base/hash.h"

namespace parascale::conformance {

std::string worker_program;

namespace {

constexpr std::uint32_t kSide = 8;
constexpr std::uint32_t kLabels = 3;

float pixel(std::uint64_t content, std::uint64_t row, std::uint64_t index) {
  const std::array<std::uint64_t, 3> key{content, row, index};
  return static_cast<float>(static_cast<double>(xxh3_64(std::as_bytes(std::span(key))) >> 40) * 0x1.0p-23 - 1.0);
}

}  // namespace

Json small_plan(const protocol::SlotLayout& layout) {
  Json id2label = Json::object();
  Json label2id = Json::object();
  for (std::uint32_t i = 0; i < kLabels; ++i) {
    id2label[std::to_string(i)] = fmt::format("LABEL_{}", i);
    label2id[fmt::format("LABEL_{}", i)] = i;
  }
  return Json::object(
      {{"model", Json::object({{"architectures", Json::array({"ViTForImageClassification"})},
                               {"model_type", "vit"},
                               {"image_size", kSide},
                               {"patch_size", 4},
                               {"num_channels", 1},
                               {"hidden_size", 16},
                               {"num_hidden_layers", 2},
                               {"num_attention_heads", 2},
                               {"intermediate_size", 32},
                               {"hidden_act", "gelu"},
                               {"layer_norm_eps", 1e-12},
                               {"initializer_range", 0.02},
                               {"hidden_dropout_prob", 0.0},
                               {"attention_probs_dropout_prob", 0.0},
                               {"qkv_bias", true},
                               {"id2label", id2label},
                               {"label2id", label2id}})},
       {"optimizer", Json::object({{"type", "adamw"},
                                   {"betas", Json::array({0.9, 0.999})},
                                   {"eps", 1e-8},
                                   {"weight_decay", 0.05},
                                   {"momentum", 0.0},
                                   {"nesterov", false}})},
       {"training", Json::object({{"seed", 42}, {"label_smoothing", 0.0}, {"grad_clip_norm", 1.0}, {"nonfinite", "stop"}})},
       {"threads", Json::object({{"cores", 1}, {"engine", 1}, {"intra_op", 1}})},
       {"batch", Json::object({{"per_rank", 4}, {"accumulation", 2}, {"layout", layout.to_json()}})}});
}

RankHarness::RankHarness(std::string hello_version) {
  auto ends = protocol::make_socket_pair();
  EXPECT_TRUE(ends.ok());
  log_path = ::testing::TempDir() + fmt::format("conformance-{}-{}.log", getpid(), ends->first.get());
  ::unlink(log_path.c_str());
  auto child = run::ChildProcess::spawn({.program = worker_program, .control_fd = ends->second.get(), .log_path = log_path});
  EXPECT_TRUE(child.ok()) << render(child.error());
  process = std::move(child).value();
  channel = protocol::Channel(std::move(ends->first));
  send(protocol::Hello{.protocol = std::move(hello_version), .role = "agent", .pid = getpid()}.to_json());
}

RankHarness::~RankHarness() {
  if (::testing::Test::HasFailure()) {
    for (const auto& line : run::log_tail(log_path, 20)) {
      fmt::print("worker log: {}\n", line);
    }
  }
  ::unlink(log_path.c_str());
}

void RankHarness::make_ready(std::uint64_t seed) {
  auto made = protocol::make_slot_layout({{"pixel_values", Dtype::f32, {1, kSide, kSide}}, {"labels", Dtype::i64, {}}}, 3, 4);
  ASSERT_TRUE(made.ok());
  layout = std::move(made).value();
  results_layout = protocol::make_results_layout(layout.slot_count, layout.capacity, kLabels);
  auto ring = protocol::Region::make("batches", layout.region_bytes());
  auto page = protocol::Region::make("pulse", protocol::kPulseBytes);
  auto predictions = protocol::Region::make("results", results_layout.region_bytes());
  ASSERT_TRUE(ring.ok() && page.ok() && predictions.ok());
  batches = std::move(ring).value();
  pulse = std::move(page).value();
  results = std::move(predictions).value();
  (void)expect("hello");
  ASSERT_TRUE(channel.send(protocol::region_message("batches", batches.size(), layout.to_json()), {batches.fd()}).ok());
  ASSERT_TRUE(channel.send(protocol::region_message("pulse", pulse.size()), {pulse.fd()}).ok());
  ASSERT_TRUE(channel.send(protocol::region_message("results", results.size(), results_layout.to_json()), {results.fd()}).ok());
  send(Json::object({{"type", "init"}, {"plan", small_plan(layout)}, {"plan_hash", "0"}, {"seed", seed}}));
  const Json ready = expect("ready");
  for (const auto& item : ready.find("state")->items()) {
    auto entry = protocol::StateEntry::from_json(item);
    ASSERT_TRUE(entry.ok()) << render(entry.error());
    inventory.push_back(std::move(entry).value());
  }
  ASSERT_FALSE(inventory.empty());
}

void RankHarness::share_arena() {
  auto plan = run::SnapshotPlan::make(inventory);
  ASSERT_TRUE(plan.ok()) << render(plan.error());
  snapshot_plan = std::move(plan).value();
  auto region = protocol::Region::make("snapshot", snapshot_plan->arena_bytes());
  ASSERT_TRUE(region.ok());
  arena = std::move(region).value();
  snapshot_plan->write_headers(arena.bytes());
  ASSERT_TRUE(channel.send(protocol::region_message("snapshot", arena.size()), {arena.fd()}).ok());
}

Json RankHarness::expect(const std::string& type, std::chrono::seconds limit) {
  const auto is_wanted = [&](const Json& message) { return *message.find("type")->to_string() == type; };
  if (const auto found = std::ranges::find_if(kept_, is_wanted); found != kept_.end()) {
    Json message = *found;
    kept_.erase(found);
    return message;
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    auto frame = channel.take();
    if (!frame.ok()) {
      ADD_FAILURE() << render(frame.error());
      return {};
    }
    if (*frame) {
      if (is_wanted((*frame)->message)) {
        return (*frame)->message;
      }
      if ((*frame)->type() == "error" && type != "error") {
        ADD_FAILURE() << "the worker reports: " << (*frame)->message.dump() << " while `" << type << "` was awaited";
        return {};
      }
      kept_.push_back((*frame)->message);
      continue;
    }
    pollfd ready{.fd = channel.fd(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, 100);
    const auto open = channel.read_available();
    if (!open.ok() || !*open) {
      if (auto last = channel.take(); last.ok() && *last && is_wanted((*last)->message)) {
        return (*last)->message;
      }
      ADD_FAILURE() << "the worker closed its socket while `" << type << "` was awaited";
      return {};
    }
  }
  ADD_FAILURE() << "no `" << type << "` within " << limit.count() << " s";
  return {};
}

run::ExitStatus RankHarness::expect_exit(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (const auto status = process.try_wait()) {
      return *status;
    }
    pollfd ended{.fd = process.pidfd(), .events = POLLIN, .revents = 0};
    poll(&ended, 1, 100);
  }
  ADD_FAILURE() << "the worker did not end within " << limit.count() << " s";
  return process.wait_or_kill(std::chrono::milliseconds(0));
}

void RankHarness::fill(std::uint32_t slot, std::uint64_t content, std::uint32_t count, std::uint32_t valid) {
  protocol::SlotWriter writer(layout, batches.bytes(), slot);
  writer.begin(0, Step{1}, 0, count);
  for (std::uint32_t row = 0; row < count; ++row) {
    writer.set_id(row, SampleId{content * 100 + row});
    const auto bytes = writer.row(0, row);
    for (std::size_t i = 0; i * sizeof(float) < bytes.size(); ++i) {
      const float value = pixel(content, row, i);
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof value);
    }
    const auto label = static_cast<std::int64_t>((content + row) % kLabels);
    std::memcpy(writer.row(1, row).data(), &label, sizeof label);
  }
  (void)writer.finish(valid);
}

void RankHarness::send_step(std::uint64_t step) {
  channel.queue(Json::object({{"type", "step"},
                              {"t", step},
                              {"lr", 0.01},
                              {"micros", 2},
                              {"planned", Json::object({{"loss", 8}})},
                              {"policy", Json::object({{"nonfinite", "stop"}})},
                              {"flags", Json::object({{"audit", step == 1}, {"profile", false}})}}));
  for (std::uint32_t k = 0; k < 2; ++k) {
    fill(k, step * 10 + k);
    channel.queue(Json::object({{"type", "micro"}, {"t", step}, {"k", k}, {"slot", k}}));
  }
  channel.queue(Json::object({{"type", "finish"}, {"t", step}, {"denominators", Json::object({{"loss", 8}})}}));
  ASSERT_TRUE(channel.flush().ok());
}

Json RankHarness::run_step(std::uint64_t step) {
  send_step(step);
  (void)expect("release");
  (void)expect("release");
  return expect("step_done");
}

std::map<std::string, std::string> RankHarness::read_arena() const {
  std::map<std::string, std::string> state;
  for (const auto& file : snapshot_plan->data_files(arena.bytes())) {
    for (const auto& piece : file.pieces) {
      const auto bytes = file.bytes.subspan(piece.offset_bytes, piece.size_bytes);
      std::string copy(bytes.size(), '\0');
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      state[piece.tensor] = std::move(copy);
    }
  }
  return state;
}

std::map<std::string, std::string> RankHarness::snapshot(std::uint64_t step) {
  if (!arena.valid()) {
    share_arena();
  }
  send(snapshot_plan->message(Step{step}));
  (void)expect("snapshot_ready");
  return read_arena();
}

Json RankHarness::evaluate(std::uint32_t slot, std::uint64_t id) {
  send(
      Json::object({{"type", "eval"}, {"id", id}, {"weights", "live"}, {"phase", "validation"}, {"slot", slot}, {"last", true}}));
  const Json done = expect("eval_done");
  (void)expect("release");
  return done;
}

std::vector<float> RankHarness::logits(std::uint32_t slot) const {
  const auto view = protocol::read_results(results_layout, results.bytes(), slot);
  EXPECT_TRUE(view.ok());
  return view.ok() ? std::vector<float>(view->values.begin(), view->values.end()) : std::vector<float>();
}

Json RankHarness::load(const std::map<std::string, std::string>& state, const std::string& directory) {
  Json tensors = Json::array();
  std::size_t number = 0;
  for (const auto& [name, bytes] : state) {
    const std::string path = join_path(directory, fmt::format("tensor-{}-{}", getpid(), number++));
    const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
    EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    tensors.push_back(Json::object({{"name", name}, {"file", path}, {"offset", 0}, {"bytes", bytes.size()}, {"slice", Json()}}));
  }
  send(Json::object({{"type", "load"}, {"tensors", std::move(tensors)}, {"strict", true}}));
  return expect("loaded");
}

}  // namespace parascale::conformance
