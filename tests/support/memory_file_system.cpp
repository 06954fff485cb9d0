#include "tests/support/memory_file_system.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "parascale/base/hash.h"
#include "parascale/base/text.h"

namespace parascale::testing {

namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kSectorBytes = 512;
constexpr std::uint64_t kRoot = 1;

}  // namespace

/// An open file: leads to its node, so it outlives renames like a descriptor does.
class MemoryFile final : public File {
 public:
  MemoryFile(MemoryFileSystem& files, std::string path, MemoryFileSystem::NodeId node)
      : files_(files), path_(std::move(path)), node_(node) {}

  const std::string& path() const override { return path_; }

  Result<std::uint64_t> size() override {
    const std::scoped_lock lock(files_.mutex_);
    PS_TRY(files_.enter(MemoryFileSystem::Call::size, "stat", path_));
    return static_cast<std::uint64_t>(content().size());
  }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    const std::scoped_lock lock(files_.mutex_);
    PS_TRY(files_.enter(MemoryFileSystem::Call::read, "read", path_));
    const auto& bytes = content();
    if (offset >= bytes.size()) {
      return std::size_t{0};
    }
    const std::size_t count = std::min<std::size_t>(into.size(), bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
    return count;
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(files_.mutex_);
    bool torn = false;
    PS_ASSIGN(const auto outcome, files_.enter(MemoryFileSystem::Call::write, "write", path_, &torn));
    if (outcome == MemoryFileSystem::Outcome::lie) {
      return {};
    }
    const auto kept = torn ? bytes.first(bytes.size() / 2) : bytes;
    MemoryFileSystem::Operation operation{.kind = MemoryFileSystem::Operation::Kind::write, .node = node_, .offset = offset};
    operation.bytes.assign(kept.begin(), kept.end());
    files_.log(std::move(operation));
    return torn ? Status(io_error("write", path_, EIO)) : Status();
  }

  Status allocate(std::uint64_t bytes) override {
    const std::scoped_lock lock(files_.mutex_);
    PS_ASSIGN(const auto outcome, files_.enter(MemoryFileSystem::Call::allocate, "reserve space for", path_));
    if (outcome == MemoryFileSystem::Outcome::proceed && bytes > content().size()) {
      files_.log({.kind = MemoryFileSystem::Operation::Kind::resize, .node = node_, .offset = bytes});
    }
    return {};
  }

  Status sync() override { return files_.sync_node(MemoryFileSystem::Call::sync, "sync", path_, node_); }

  Status close() override {
    const std::scoped_lock lock(files_.mutex_);
    PS_TRY(files_.enter(MemoryFileSystem::Call::close, "close", path_));
    return {};
  }

 private:
  const std::vector<std::byte>& content() const { return *files_.nodes_.at(node_).content; }

  MemoryFileSystem& files_;
  std::string path_;
  MemoryFileSystem::NodeId node_;
};

MemoryFileSystem::MemoryFileSystem() {
  nodes_[kRoot].directory = true;
  base_ = nodes_;
}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::inject(std::uint64_t n, Fault fault) { inject_matching(n, fault, nullptr); }

void MemoryFileSystem::inject_matching(std::uint64_t n, Fault fault, std::function<bool(const Record&)> match) {
  const std::scoped_lock lock(mutex_);
  fault_in_ = n;
  fault_ = fault;
  fault_match_ = std::move(match);
  fault_fired_ = false;
  stopped_ = false;
}

bool MemoryFileSystem::fault_fired() const {
  const std::scoped_lock lock(mutex_);
  return fault_fired_;
}

std::size_t MemoryFileSystem::fault_moment() const {
  const std::scoped_lock lock(mutex_);
  return fault_moment_;
}

std::vector<MemoryFileSystem::Record> MemoryFileSystem::calls() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

void MemoryFileSystem::forget_calls() {
  const std::scoped_lock lock(mutex_);
  calls_.clear();
}

void MemoryFileSystem::make_durable() {
  const std::scoped_lock lock(mutex_);
  base_ = nodes_;
  log_.clear();
}

std::size_t MemoryFileSystem::operations() const {
  const std::scoped_lock lock(mutex_);
  return log_.size();
}

Result<MemoryFileSystem::Outcome> MemoryFileSystem::enter(Call call, std::string_view operation, const std::string& path,
                                                          bool* torn) {
  Record record{call, path};
  const bool counts = fault_in_ != 0 && (!fault_match_ || fault_match_(record));
  calls_.push_back(std::move(record));
  if (stopped_) {
    return io_error(operation, path, EIO);
  }
  if (!counts || --fault_in_ != 0) {
    return Outcome::proceed;
  }
  fault_fired_ = true;
  fault_moment_ = log_.size();
  switch (fault_) {
    case Fault::lie:
      return Outcome::lie;
    case Fault::no_space:
      return io_error(operation, path, ENOSPC);
    case Fault::short_write:
      if (torn != nullptr) {
        *torn = true;
        return Outcome::proceed;
      }
      break;
    case Fault::stop:
      stopped_ = true;
      break;
    case Fault::io_error:
      break;
  }
  return io_error(operation, path, EIO);
}

Result<MemoryFileSystem::Place> MemoryFileSystem::find(std::string_view operation, const std::string& path) const {
  Place place{.node = kRoot};
  for (const auto& part : split(path, '/')) {
    if (part.empty()) {
      continue;
    }
    const auto directory = nodes_.find(place.node);
    if (directory == nodes_.end()) {
      return io_error(operation, path, ENOENT);
    }
    if (!directory->second.directory) {
      return io_error(operation, path, ENOTDIR);
    }
    const auto entry = directory->second.names.find(part);
    place = {.directory = place.node, .name = part, .node = entry == directory->second.names.end() ? 0 : entry->second};
  }
  return place;
}

bool MemoryFileSystem::apply(Nodes& nodes, const Operation& operation) {
  Node& node = nodes[operation.node];
  const auto leads_to = [](const Node& directory, const std::string& name) {
    const auto entry = directory.names.find(name);
    return entry == directory.names.end() ? NodeId{0} : entry->second;
  };
  switch (operation.kind) {
    case Operation::Kind::write:
    case Operation::Kind::resize: {
      Content content = *node.content;
      content.resize(std::max<std::size_t>(content.size(), operation.offset + operation.bytes.size()));
      std::ranges::copy(operation.bytes, content.begin() + static_cast<std::ptrdiff_t>(operation.offset));
      node.content = std::make_shared<const Content>(std::move(content));
      return true;
    }
    case Operation::Kind::link:
      if (leads_to(node, operation.name) != 0) {
        return false;
      }
      node.names[operation.name] = operation.target;
      nodes[operation.target].directory = operation.target_is_directory;
      return true;
    case Operation::Kind::rename: {
      Node& to = nodes[operation.new_directory];
      if (leads_to(node, operation.name) != operation.target || (!operation.replaces && leads_to(to, operation.new_name) != 0)) {
        return false;
      }
      to.names[operation.new_name] = operation.target;
      node.names.erase(operation.name);
      return true;
    }
    case Operation::Kind::unlink:
      return leads_to(node, operation.name) == operation.target && node.names.erase(operation.name) > 0;
    case Operation::Kind::sync:
      return true;
  }
  return false;
}

void MemoryFileSystem::log(Operation operation) {
  apply(nodes_, operation);
  log_.push_back(std::move(operation));
}

Status MemoryFileSystem::sync_node(Call call, std::string_view operation, const std::string& path, NodeId node) {
  const std::scoped_lock lock(mutex_);
  const auto outcome = enter(call, operation, path);
  if (!outcome.ok()) {
    // The kernel marks what it could not write as clean all the same; what an earlier sync wrote is safe. A dead process did not
    // even ask.
    for (auto earlier = log_.rbegin(); !stopped_ && earlier != log_.rend(); ++earlier) {
      if (earlier->kind == Operation::Kind::sync && earlier->node == node) {
        break;
      }
      earlier->lost =
          earlier->lost || earlier->node == node || (earlier->kind == Operation::Kind::rename && earlier->new_directory == node);
    }
    return outcome.error();
  }
  if (*outcome == Outcome::proceed) {
    log({.kind = Operation::Kind::sync, .node = node});
  }
  return {};
}

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path, OpenMode mode) {
  const std::scoped_lock lock(mutex_);
  PS_TRY(enter(Call::open, "open", path));
  PS_ASSIGN(auto place, find("open", path));
  if (place.node != 0 && mode == OpenMode::create_new) {
    return io_error("open", path, EEXIST);
  }
  if (place.node == 0 && mode == OpenMode::read) {
    return io_error("open", path, ENOENT);
  }
  if (place.node == 0) {
    place.node = next_node_++;
    log({.kind = Operation::Kind::link, .node = place.directory, .target = place.node, .name = place.name});
  }
  if (nodes_.at(place.node).directory) {
    return io_error("open", path, EISDIR);
  }
  return std::unique_ptr<File>(std::make_unique<MemoryFile>(*this, path, place.node));
}

Status MemoryFileSystem::make_directory(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_ASSIGN(const auto outcome, enter(Call::make_directory, "make directory", path));
  PS_ASSIGN(const auto place, find("make directory", path));
  if (place.node != 0) {
    return io_error("make directory", path, EEXIST);
  }
  if (outcome == Outcome::proceed) {
    log({.kind = Operation::Kind::link,
         .node = place.directory,
         .target = next_node_++,
         .name = place.name,
         .target_is_directory = true});
  }
  return {};
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to, bool replace) {
  const std::scoped_lock lock(mutex_);
  const std::string operation = fmt::format("rename `{}` to", from);
  PS_ASSIGN(const auto outcome, enter(Call::rename, operation, to));
  PS_ASSIGN(const auto source, find(operation, from));
  PS_ASSIGN(const auto target, find(operation, to));
  if (source.node == 0) {
    return io_error(operation, to, ENOENT);
  }
  if (target.node != 0 && (!replace || nodes_.at(target.node).directory)) {
    return io_error(operation, to, EEXIST);
  }
  if (outcome == Outcome::proceed) {
    log({.kind = Operation::Kind::rename,
         .node = source.directory,
         .target = source.node,
         .name = source.name,
         .new_name = target.name,
         .new_directory = target.directory,
         .replaces = replace});
  }
  return {};
}

Status MemoryFileSystem::rename_replace(const std::string& from, const std::string& to) { return rename(from, to, true); }
Status MemoryFileSystem::rename_new(const std::string& from, const std::string& to) { return rename(from, to, false); }

Status MemoryFileSystem::sync_directory(const std::string& path) {
  NodeId node = 0;
  {
    const std::scoped_lock lock(mutex_);
    PS_ASSIGN(const auto place, find("sync directory", path));
    node = place.node;
    if (node == 0 || !nodes_.at(node).directory) {
      return io_error("sync directory", path, ENOENT);
    }
  }
  return sync_node(Call::sync_directory, "sync directory", path, node);
}

Status MemoryFileSystem::remove_file(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_ASSIGN(const auto outcome, enter(Call::remove_file, "remove", path));
  PS_ASSIGN(const auto place, find("remove", path));
  if (place.node == 0 || nodes_.at(place.node).directory) {
    return io_error("remove", path, place.node == 0 ? ENOENT : EISDIR);
  }
  if (outcome == Outcome::proceed) {
    log({.kind = Operation::Kind::unlink, .node = place.directory, .target = place.node, .name = place.name});
  }
  return {};
}

Status MemoryFileSystem::remove_directory(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_ASSIGN(const auto outcome, enter(Call::remove_directory, "remove directory", path));
  PS_ASSIGN(const auto place, find("remove directory", path));
  if (place.node == 0 || !nodes_.at(place.node).directory) {
    return io_error("remove directory", path, ENOENT);
  }
  if (!nodes_.at(place.node).names.empty()) {
    return io_error("remove directory", path, ENOTEMPTY);
  }
  if (outcome == Outcome::proceed) {
    log({.kind = Operation::Kind::unlink, .node = place.directory, .target = place.node, .name = place.name});
  }
  return {};
}

Result<std::vector<DirectoryEntry>> MemoryFileSystem::list(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_TRY(enter(Call::list, "list", path));
  PS_ASSIGN(const auto place, find("list", path));
  if (place.node == 0 || !nodes_.at(place.node).directory) {
    return io_error("list", path, place.node == 0 ? ENOENT : ENOTDIR);
  }
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, node] : nodes_.at(place.node).names) {
    const bool directory = nodes_.at(node).directory;
    entries.push_back({.name = name, .is_directory = directory, .is_regular = !directory});
  }
  return entries;
}

Result<FileInfo> MemoryFileSystem::info(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_TRY(enter(Call::info, "stat", path));
  PS_ASSIGN(const auto place, find("stat", path));
  if (place.node == 0) {
    return io_error("stat", path, ENOENT);
  }
  const Node& node = nodes_.at(place.node);
  return FileInfo{.is_directory = node.directory, .is_regular = !node.directory, .size_bytes = node.content->size()};
}

bool MemoryFileSystem::exists(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  const auto place = find("stat", path);
  return place.ok() && place->node != 0;
}

Result<std::uint64_t> MemoryFileSystem::free_bytes(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  PS_TRY(enter(Call::free_bytes, "read free space of", path));
  return free_bytes_;
}

void MemoryFileSystem::set_free_bytes(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  free_bytes_ = bytes;
}

void MemoryFileSystem::corrupt(const std::string& path, const std::function<void(std::vector<std::byte>&)>& change) {
  const std::scoped_lock lock(mutex_);
  const auto place = find("corrupt", path);
  PS_CHECK(place.ok() && place->node != 0, "the file to corrupt exists");
  Content content = *nodes_.at(place->node).content;
  change(content);
  nodes_.at(place->node).content = std::make_shared<const Content>(std::move(content));
  base_ = nodes_;
  log_.clear();
}

std::vector<std::string> MemoryFileSystem::tree() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> paths;
  const std::function<void(NodeId, const std::string&)> visit = [&](NodeId id, const std::string& at) {
    for (const auto& [name, child] : nodes_.at(id).names) {
      const bool directory = nodes_.at(child).directory;
      paths.push_back(at + name + (directory ? "/" : ""));
      if (directory) {
        visit(child, at + name + "/");
      }
    }
  };
  visit(kRoot, "/");
  return paths;
}

std::uint64_t MemoryFileSystem::digest(const std::function<bool(std::string_view name)>& opaque) const {
  const std::scoped_lock lock(mutex_);
  Xxh3Stream hash;
  const std::function<void(NodeId)> visit = [&](NodeId id) {
    const Node& node = nodes_.at(id);
    hash.update(as_bytes(node.directory ? "/" : "="));
    hash.update(as_bytes(fmt::format("{} {} ", node.names.size(), node.content->size())));
    hash.update(*node.content);
    for (const auto& [name, child] : node.names) {
      hash.update(as_bytes(fmt::format("{} ", name.size())));
      hash.update(as_bytes(name));
      if (!opaque || !opaque(name)) {
        visit(child);
      }
    }
  };
  visit(kRoot);
  return hash.digest_64();
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::with_nodes(Nodes nodes) const {
  auto files = std::make_unique<MemoryFileSystem>();
  files->nodes_ = nodes;
  files->base_ = std::move(nodes);
  files->next_node_ = next_node_;
  return files;
}

MemoryFileSystem::Crash MemoryFileSystem::crash_after(std::size_t operations) const {
  const std::scoped_lock lock(mutex_);
  Crash crash;
  crash.owner_ = this;
  crash.begin_ = base_;
  for (std::size_t i = 0; i < operations; ++i) {
    const Operation& operation = log_[i];
    if (operation.kind == Operation::Kind::sync) {
      continue;
    }
    const auto synced = [&](NodeId node) {
      return std::any_of(log_.begin() + static_cast<std::ptrdiff_t>(i), log_.begin() + static_cast<std::ptrdiff_t>(operations),
                         [&](const Operation& later) { return later.kind == Operation::Kind::sync && later.node == node; });
    };
    const bool durable = !operation.lost && synced(operation.node) &&
                         (operation.kind != Operation::Kind::rename || synced(operation.new_directory));
    if (durable && crash.operations_.empty()) {
      apply(crash.begin_, operation);
      continue;
    }
    const std::uint64_t step = operation.kind == Operation::Kind::write ? kBlockBytes : 1;
    for (std::uint64_t at = 0; at < std::max<std::uint64_t>(operation.bytes.size(), 1); at += step) {
      Operation part = operation;
      if (operation.kind == Operation::Kind::write) {
        part.offset += at;
        const auto begin = operation.bytes.begin() + static_cast<std::ptrdiff_t>(at);
        part.bytes.assign(begin,
                          begin + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(kBlockBytes, operation.bytes.size() - at)));
      }
      crash.operations_.push_back(std::move(part));
      crash.durable_.push_back(durable);
      crash.pending_ += durable ? 0 : 1;
    }
  }
  return crash;
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::Crash::state(const std::function<int(std::size_t)>& keep) const {
  Nodes nodes = begin_;
  std::size_t choice = 0;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const int kept = durable_[i] ? 1 : keep(choice++);
    if (kept == 0) {
      continue;
    }
    if (kept == 2 && operations_[i].bytes.size() > kSectorBytes) {
      Operation torn = operations_[i];
      torn.bytes.resize(kSectorBytes);
      apply(nodes, torn);
    } else {
      apply(nodes, operations_[i]);
    }
  }
  return owner_->with_nodes(std::move(nodes));
}

std::size_t for_each_crash_state(const MemoryFileSystem& files, const CrashBudget& budget,
                                 const std::function<bool(MemoryFileSystem&, std::size_t, const std::string&)>& check) {
  std::mt19937_64 random(budget.seed);
  std::size_t visited = 0;
  const std::size_t last_moment = std::min(files.operations(), budget.last_moment);
  for (std::size_t moment = budget.first_moment; moment <= last_moment; ++moment) {
    const auto crash = files.crash_after(moment);
    const std::size_t pending = crash.pending();
    const auto visit = [&](const std::string& what, const std::function<int(std::size_t)>& keep) {
      ++visited;
      const auto state = crash.state(keep);
      return check(*state, moment,
                   fmt::format("crash after operation {} of {}, {} pending: {} (seed {})", moment, files.operations(), pending,
                               what, budget.seed));
    };
    if (pending <= budget.exhaustive_pending) {
      for (std::size_t mask = 0; mask < std::size_t{1} << pending; ++mask) {
        if (!visit(fmt::format("subset {:b}", mask), [&](std::size_t i) { return static_cast<int>(mask >> i & 1U); })) {
          return visited;
        }
      }
      continue;
    }
    bool going = visit("nothing", [](std::size_t) { return 0; }) && visit("everything", [](std::size_t) { return 1; });
    for (std::size_t one = 0; budget.one_by_one && going && one < pending; ++one) {
      going = visit(fmt::format("all but {}", one), [&](std::size_t i) { return i == one ? 0 : 1; }) &&
              visit(fmt::format("only {}", one), [&](std::size_t i) { return i == one ? 1 : 0; });
    }
    for (std::size_t sample = 0; going && sample < budget.samples; ++sample) {
      const std::uint64_t bias = random() % 4;  // from mostly dropped to mostly kept
      going = visit(fmt::format("sample {}", sample), [&](std::size_t) {
        const std::uint64_t draw = random();
        return draw % 5 > bias ? 0 : draw % 7 == 0 ? 2 : 1;
      });
    }
    if (!going) {
      return visited;
    }
  }
  return visited;
}

}  // namespace parascale::testing
