#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "parascale/base/hash.h"
#include "parascale/checkpoint/checkpoint.h"

namespace parascale::checkpoint::testing {

/// Time that moves by one millisecond per look: stamps differ, and nothing depends on the machine. *thread-compatible*
class StepClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return now_ += 1'000'000; }
  std::int64_t wall_ns() const override { return 1'700'000'000'000'000'000; }

 private:
  mutable std::int64_t now_ = 0;
};

/// Owns the arena of one small request: a model of two weights, two moments and a counter, and three texts. The bytes depend on
/// `salt` only.
class SampleCheckpoint {
 public:
  explicit SampleCheckpoint(std::uint64_t step, std::uint64_t salt = 0) {
    request.step = Step{step};
    request.run_id = "run-1";
    request.backend = "native";
    request.config_hash = "c0ffee";
    request.plan_hash = "beef";
    const std::uint64_t seed = salt == 0 ? step + 1 : salt;
    add_file("model.safetensors", "model", "param",
             {{"head.weight", Dtype::f32, {10, 64}}, {"head.bias", Dtype::f32, {10}}, {"steps", Dtype::i64, {}}}, seed);
    add_file("training/optimizer.safetensors", "optimizer", "moment",
             {{"exp_avg.head.weight", Dtype::f32, {10, 64}}, {"exp_avg_sq.head.weight", Dtype::f32, {10, 64}}}, seed + 1000);
    request.tensors.push_back(
        TensorRecord{.name = "tied.weight", .global_shape = {10, 64}, .kind = "param", .alias_of = "head.weight"});
    request.text_files = {{"config.json", "config", R"({"model_type": "vit"})"},
                          {"training/state.json", "state", "{\"step\": " + std::to_string(step) + "}"}};
    request.progress = Json::object({{"samples", step * 64}});
    for (std::size_t i = 0; i < arenas.size(); ++i) {
      request.data_files[i].bytes = arenas[i];
    }
  }
  SampleCheckpoint(const SampleCheckpoint&) = delete;
  SampleCheckpoint& operator=(const SampleCheckpoint&) = delete;

  CommitRequest request;
  std::vector<std::vector<std::byte>> arenas;  ///< one per data file

 private:
  void add_file(const std::string& path, const std::string& role, const std::string& kind,
                const std::vector<TensorEntry>& entries, std::uint64_t seed) {
    const SafetensorsLayout layout = make_layout(entries, {{"format", "pt"}}).value();
    std::vector<std::byte>& arena = arenas.emplace_back(layout.total_bytes);
    std::memcpy(arena.data(), layout.header.data(), layout.header.size());
    for (std::size_t i = layout.header.size(); i < arena.size(); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      arena[i] = static_cast<std::byte>(seed >> 56U);
    }
    DataFile file{.path = path, .role = role};
    for (const auto& tensor : layout.tensors) {
      file.pieces.push_back({.tensor = tensor.name, .offset_bytes = tensor.offset_bytes, .size_bytes = tensor.size_bytes});
      request.tensors.push_back(TensorRecord{
          .name = tensor.name, .dtype = tensor.dtype, .global_shape = tensor.shape, .kind = kind, .trainable = kind == "param"});
    }
    request.data_files.push_back(std::move(file));
  }
};

/// One hash over everything that loads from a checkpoint: names, bytes and texts. Errors: like open_for_load.
inline Result<std::string> fingerprint(FileSystem& files, const std::string& directory) {
  PS_ASSIGN(const auto opened, open_for_load(files, directory));
  Xxh3Stream hash;
  for (const auto& tensor : opened.tensors) {
    PS_ASSIGN(auto file, files.open(tensor.file, OpenMode::read));
    std::vector<std::byte> bytes(tensor.size_bytes);
    PS_ASSIGN(const std::size_t got, file->read_at(tensor.offset_bytes, bytes));
    PS_CHECK(got == bytes.size(), "a verified file has all its bytes");
    hash.update(as_bytes(tensor.name));
    hash.update(bytes);
  }
  for (const auto& [path, text] : opened.texts) {
    hash.update(as_bytes(path));
    hash.update(as_bytes(text));
  }
  return hash.digest_128_hex();
}

}  // namespace parascale::checkpoint::testing
