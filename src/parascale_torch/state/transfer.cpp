#include "parascale_torch/state/transfer.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "parascale/base/file_system.h"

namespace parascale::native {

namespace {

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

struct Copy {
  std::span<const std::byte> from;
  std::byte* to = nullptr;
  std::uint64_t offset = 0;
};

Status check_disjoint(std::vector<Copy> copies) {
  std::ranges::sort(copies, {}, &Copy::offset);
  for (std::size_t i = 1; i < copies.size(); ++i) {
    if (copies[i - 1].offset + copies[i - 1].from.size() > copies[i].offset) {
      return violation(fmt::format("two tensors overlap at offset {} of the arena", copies[i].offset));
    }
  }
  return {};
}

struct Source {
  const StateTensor* target = nullptr;
  std::string file;
  std::uint64_t offset = 0;
};

Status read_sources(const std::vector<Source>& sources) {
  std::map<std::string, std::unique_ptr<File>> files;
  for (const auto& source : sources) {
    auto& file = files[source.file];
    if (!file) {
      PS_ASSIGN(file, real_file_system().open(source.file, OpenMode::read));
    }
    const auto into = source.target->bytes();
    PS_ASSIGN(const std::size_t got, file->read_at(source.offset, into));
    if (got != into.size()) {
      return violation(fmt::format("`{}` ends inside tensor `{}`", source.file, source.target->name));
    }
  }
  return {};
}

}  // namespace

Result<Json> copy_to_arena(const StateInventory& inventory, const Json& assign, std::span<std::byte> arena) {
  std::vector<Copy> copies;
  Json pieces = Json::array();
  for (const auto& entry : assign.items()) {
    PS_ASSIGN(const auto name, entry.get<std::string>("name"));
    PS_ASSIGN(const auto offset, entry.get<std::uint64_t>("offset"));
    const StateTensor* tensor = inventory.find(name);
    if (tensor == nullptr) {
      return violation(fmt::format("snapshot names unknown tensor `{}`", name));
    }
    if (const Json* slice = entry.find("slice"); slice != nullptr && !slice->is_null()) {
      return violation(fmt::format("snapshot asks for a slice of `{}`; this rank holds whole tensors", name));
    }
    const auto bytes = tensor->bytes();
    if (offset > arena.size() || bytes.size() > arena.size() - offset) {
      return violation(fmt::format("tensor `{}` at offset {} lies outside the arena of {} bytes", name, offset, arena.size()));
    }
    copies.push_back({.from = bytes, .to = arena.data() + offset, .offset = offset});
    pieces.push_back(Json::object({{"name", name}, {"slice", nullptr}, {"offset", offset}, {"bytes", bytes.size()}}));
  }
  PS_TRY(check_disjoint(copies));
  at::parallel_for(0, static_cast<std::int64_t>(copies.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      std::memcpy(copies[i].to, copies[i].from.data(), copies[i].from.size());
    }
  });
  return pieces;
}

Result<LoadReport> load_tensors(const StateInventory& inventory, const Json& tensors, bool strict) {
  LoadReport report;
  std::vector<Source> sources;
  std::set<std::string> seen;
  for (const auto& entry : tensors.items()) {
    PS_ASSIGN(const auto name, entry.get<std::string>("name"));
    PS_ASSIGN(auto file, entry.get<std::string>("file"));
    PS_ASSIGN(const auto offset, entry.get<std::uint64_t>("offset"));
    PS_ASSIGN(const auto bytes, entry.get<std::uint64_t>("bytes"));
    if (const Json* slice = entry.find("slice"); slice != nullptr && !slice->is_null()) {
      return violation(fmt::format("load gives a slice of `{}`; this rank holds whole tensors", name));
    }
    const StateTensor* target = inventory.find(name);
    if (target == nullptr) {
      report.unexpected.push_back(name);
    } else if (target->value.nbytes() != bytes) {
      report.mismatched.push_back(name);
    } else {
      sources.push_back({.target = target, .file = std::move(file), .offset = offset});
    }
    if (!seen.insert(name).second) {
      return violation(fmt::format("load names tensor `{}` twice", name));
    }
  }
  for (const auto& tensor : inventory.tensors()) {
    if (!seen.contains(tensor.name)) {
      report.missing.push_back(tensor.name);
    }
  }
  const bool clean = report.missing.empty() && report.unexpected.empty() && report.mismatched.empty();
  if (clean || !strict) {
    PS_TRY(read_sources(sources));
  }
  return report;
}

}  // namespace parascale::native
