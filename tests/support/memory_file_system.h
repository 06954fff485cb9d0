#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/file_system.h"

namespace parascale::testing {

/// Files in memory, with injected faults and a model of what a power cut may leave.
///
/// Every change is an operation in a log. Data of a file is durable after `File::sync`, names of a directory after
/// `sync_directory`; nothing else is. A crash state keeps every durable operation and any subset of the pending ones whose
/// preconditions hold: writes in blocks of 4 KiB, each kept, dropped, or torn at 512 bytes; names (made, renamed, removed) one by
/// one. A failed sync leaves what it should have written pending for ever: a second sync that succeeds does not make it durable
/// (as on Linux).
///
/// Paths are absolute and plain. *thread-safe*
class MemoryFileSystem final : public FileSystem {
 public:
  enum class Fault : std::uint8_t {
    io_error,     ///< EIO
    no_space,     ///< ENOSPC
    short_write,  ///< a write keeps its first half, then EIO; another call fails with EIO
    lie,          ///< the call does nothing and reports success (only calls without a value)
    stop,         ///< EIO, and every later call fails too: the process is dead until `inject(0, ...)`
  };

  /// One kind of call, for counting and for choosing where a fault strikes.
  enum class Call : std::uint8_t {
    open,
    make_directory,
    rename,
    sync_directory,
    remove_file,
    remove_directory,
    list,
    info,
    free_bytes,
    size,
    read,
    write,
    allocate,
    sync,
    close,
  };

  /// A call that happened.
  struct Record {
    Call call;
    std::string path;
  };

  /// What a crash at one moment may leave: `pending` operations to choose from.
  class Crash;

  MemoryFileSystem();
  ~MemoryFileSystem() override;

  /// The n-th call from now (from 1) suffers `fault`; later ones work again. 0 = none.
  void inject(std::uint64_t n, Fault fault);
  /// The n-th call from now whose record is accepted by `match`.
  void inject_matching(std::uint64_t n, Fault fault, std::function<bool(const Record&)> match);
  /// Whether the injected fault has struck.
  bool fault_fired() const;
  /// Operations logged before it struck.
  std::size_t fault_moment() const;
  /// Calls since the start or `forget_calls`.
  std::vector<Record> calls() const;
  void forget_calls();

  /// Makes everything durable and empties the log: the state before the code under test runs.
  void make_durable();
  /// Operations logged since `make_durable`.
  std::size_t operations() const;
  /// Looks at a crash right after the first `operations` logged operations.
  Crash crash_after(std::size_t operations) const;

  /// Changes stored bytes behind the program's back, durably: `change` gets the content.
  void corrupt(const std::string& path, const std::function<void(std::vector<std::byte>&)>& change);
  /// All paths, directories with a final `/`, sorted: to compare or print states.
  std::vector<std::string> tree() const;
  /// Hash of all names and contents; what lies below a name that `opaque` accepts does not count (nullptr = everything counts).
  std::uint64_t digest(const std::function<bool(std::string_view name)>& opaque = nullptr) const;
  void set_free_bytes(std::uint64_t bytes);

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status make_directory(const std::string& path) override;
  Status rename_replace(const std::string& from, const std::string& to) override;
  Status rename_new(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Status remove_file(const std::string& path) override;
  Status remove_directory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  bool exists(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override;

 private:
  friend class MemoryFile;
  using NodeId = std::uint64_t;
  using Content = std::vector<std::byte>;
  struct Node {
    bool directory = false;
    std::shared_ptr<const Content> content = std::make_shared<const Content>();  ///< shared by copies of a state until one writes
    std::map<std::string, NodeId> names;
  };
  using Nodes = std::map<NodeId, Node>;

  /// One change. Data: `write` of bytes, `resize`. Names: `link` (a new file or directory), `rename`, `unlink`. Syncs: `sync`.
  struct Operation {
    enum class Kind : std::uint8_t { write, resize, link, rename, unlink, sync };
    Kind kind;
    NodeId node = 0;    ///< the file or directory changed; for names the directory that holds them
    NodeId target = 0;  ///< the node a name leads to
    std::string name;
    std::string new_name;      ///< of a rename
    NodeId new_directory = 0;  ///< of a rename
    bool replaces = false;     ///< a rename that may take a name in use
    std::uint64_t offset = 0;  ///< of a write; the size of a resize
    std::vector<std::byte> bytes;
    bool target_is_directory = false;
    bool lost = false;  ///< a sync of it failed: never durable any more
  };

  struct Place {
    NodeId directory = 0;
    std::string name;
    NodeId node = 0;  ///< 0 = no such name
  };

  enum class Outcome : std::uint8_t { proceed, lie };
  /// Counts the call and lets the injected fault strike. `short_write` is reported through `torn`.
  Result<Outcome> enter(Call call, std::string_view operation, const std::string& path, bool* torn = nullptr);
  Result<Place> find(std::string_view operation, const std::string& path) const;
  void log(Operation operation);
  Status rename(const std::string& from, const std::string& to, bool replace);
  Status sync_node(Call call, std::string_view operation, const std::string& path, NodeId node);
  static bool apply(Nodes& nodes, const Operation& operation);
  std::unique_ptr<MemoryFileSystem> with_nodes(Nodes nodes) const;

  mutable std::mutex mutex_;
  Nodes nodes_;
  Nodes base_;  ///< durable state at the start of the log
  std::vector<Operation> log_;
  std::vector<Record> calls_;
  NodeId next_node_ = 2;
  std::uint64_t fault_in_ = 0;
  Fault fault_ = Fault::io_error;
  std::function<bool(const Record&)> fault_match_;
  bool fault_fired_ = false;
  bool stopped_ = false;
  std::size_t fault_moment_ = 0;
  std::uint64_t free_bytes_ = 1ULL << 40;
};

/// The choice of what survives a crash. *thread-compatible*
class MemoryFileSystem::Crash {
 public:
  /// Number of independent choices: blocks of writes, names.
  std::size_t pending() const { return pending_; }
  /// The disk after the crash, where choice i survives if `keep(i)`: 0 = dropped, 1 = kept, 2 = torn (a write keeps its first 512
  /// bytes).
  std::unique_ptr<MemoryFileSystem> state(const std::function<int(std::size_t)>& keep) const;

 private:
  friend class MemoryFileSystem;
  const MemoryFileSystem* owner_ = nullptr;
  Nodes begin_;                        ///< with everything before the first pending operation
  std::vector<Operation> operations_;  ///< from there on, writes cut into blocks
  std::vector<bool> durable_;
  std::size_t pending_ = 0;
};

/// How many crash states `for_each_crash_state` visits per moment.
struct CrashBudget {
  std::size_t exhaustive_pending = 8;  ///< up to so many choices, all subsets
  std::size_t samples = 60;  ///< else so many seeded ones, besides "nothing", "everything", "all but one" and "only one"
  bool one_by_one = true;    ///< visit "all but one" and "only one"
  std::uint64_t seed = 1;
  std::size_t first_moment = 0;  ///< operations of the log after which the first and the last crash happen
  std::size_t last_moment = SIZE_MAX;
};

/// Calls `check(state, operations, description)` for crash states at every moment of the log (within the budget's bounds) until
/// it returns false. Returns the states visited.
std::size_t for_each_crash_state(const MemoryFileSystem& files, const CrashBudget& budget,
                                 const std::function<bool(MemoryFileSystem&, std::size_t, const std::string&)>& check);

}  // namespace parascale::testing
