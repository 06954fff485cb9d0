#include "parascale/run/snapshot.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace parascale::run {

Result<SnapshotPlan> SnapshotPlan::make(const std::vector<protocol::StateEntry>& inventory) {
  SnapshotPlan plan;
  std::vector<checkpoint::TensorEntry> model;
  std::vector<checkpoint::TensorEntry> training;
  std::set<std::string> names;
  for (const auto& entry : inventory) {
    if (!names.insert(entry.name).second) {
      return Error(Code::state_mismatch, fmt::format("the rank names tensor `{}` twice", entry.name));
    }
    plan.tensors_.push_back({.name = entry.name,
                             .dtype = entry.dtype,
                             .global_shape = entry.global_shape,
                             .kind = entry.kind,
                             .trainable = entry.trainable,
                             .group = entry.group,
                             .alias_of = entry.alias_of.empty() ? std::nullopt : std::optional(entry.alias_of)});
    if (entry.alias_of.empty()) {
      auto& file = entry.kind == "param" || entry.kind == "buffer" ? model : training;
      file.push_back({.name = entry.name, .dtype = entry.dtype, .shape = entry.global_shape});
    }
  }
  const auto add = [&](std::string path, std::string role, std::vector<checkpoint::TensorEntry> entries) -> Status {
    if (entries.empty()) {
      return {};
    }
    PS_ASSIGN(auto layout, checkpoint::make_layout(std::move(entries), {{"format", "pt"}}));
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t offset = plan.arena_bytes_;
    plan.arena_bytes_ = (offset + layout.total_bytes + kPage - 1) / kPage * kPage;
    plan.files_.push_back(
        {.path = std::move(path), .role = std::move(role), .layout = std::move(layout), .arena_offset = offset});
    return {};
  };
  PS_TRY(add("model.safetensors", "model", std::move(model)));
  PS_TRY(add("training/optimizer.safetensors", "optimizer", std::move(training)));
  return plan;
}

void SnapshotPlan::write_headers(std::span<std::byte> arena) const {
  for (const auto& file : files_) {
    std::ranges::copy(std::as_bytes(std::span(file.layout.header)), arena.subspan(file.arena_offset).begin());
  }
}

Json SnapshotPlan::message(Step step) const {
  Json assign = Json::array();
  for (const auto& file : files_) {
    for (const auto& tensor : file.layout.tensors) {
      assign.push_back(Json::object({{"name", tensor.name},
                                     {"slice", Json()},
                                     {"offset", file.arena_offset + tensor.offset_bytes},
                                     {"bytes", tensor.size_bytes}}));
    }
  }
  return Json::object({{"type", "snapshot"}, {"t", step.value}, {"mode", "arena"}, {"assign", std::move(assign)}});
}

std::vector<checkpoint::DataFile> SnapshotPlan::data_files(std::span<const std::byte> arena) const {
  std::vector<checkpoint::DataFile> out;
  for (const auto& file : files_) {
    checkpoint::DataFile data{
        .path = file.path, .role = file.role, .bytes = arena.subspan(file.arena_offset, file.layout.total_bytes)};
    for (const auto& tensor : file.layout.tensors) {
      data.pieces.push_back({.tensor = tensor.name, .offset_bytes = tensor.offset_bytes, .size_bytes = tensor.size_bytes});
    }
    out.push_back(std::move(data));
  }
  return out;
}

CommitThread::CommitThread(std::unique_ptr<checkpoint::Committer> committer)
    : committer_(std::move(committer)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { work(); }) {}

CommitThread::~CommitThread() {
  requests_.close();
  outcomes_.close();
}

void CommitThread::work() {
  while (auto request = requests_.pop()) {
    outcomes_.push(committer_->commit(*request));
    const std::uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof one);
  }
}

void CommitThread::start(checkpoint::CommitRequest request) {
  PS_CHECK(!busy_, "one commit at a time: the arena belongs to it");
  busy_ = true;
  requests_.push(std::move(request));
}

std::optional<Result<checkpoint::Committed>> CommitThread::take() {
  std::uint64_t count = 0;
  if (!busy_ || read(event_.get(), &count, sizeof count) != sizeof count) {
    return std::nullopt;
  }
  busy_ = false;
  return outcomes_.pop();
}

}  // namespace parascale::run
