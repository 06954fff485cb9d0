#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parascale/checkpoint/best.h"
#include "parascale/checkpoint/commit_attempt.h"
#include "parascale/checkpoint/committer.h"

namespace parascale::checkpoint {

// Names inside a root. Everything with a leading dot is invisible to readers and belongs to the committer.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";  ///< being written
inline constexpr std::string_view kDeletedPrefix = ".del-";    ///< being removed
inline constexpr std::string_view kParkedPrefix = ".old-";  ///< being replaced: put back when the new one did not become durable

/// What a committer knows about its root. `commit_mutex` serialises everything that writes; `mutex` guards the members below it.
struct Committer::State {
  State(FileSystem& file_system, const Clock& a_clock, CheckpointOptions the_options)
      : files(file_system), clock(a_clock), options(std::move(the_options)) {}

  FileSystem& files;
  const Clock& clock;
  const CheckpointOptions options;
  std::vector<std::string> recovered;  ///< constant after open

  std::mutex commit_mutex;
  std::uint64_t next_seq = 1;
  std::uint64_t next_token = 0;
  /// Set when the root could not be synced: the kernel may have dropped what was not written, and a later sync would report
  /// success all the same.
  std::optional<Error> broken;
  /// `best.json` could not be read or written: it might point to anything, so nothing is removed until it is set anew.
  std::optional<Error> best_unreadable;

  mutable std::mutex mutex;
  std::vector<CommitReference> known;  ///< commits with a readable manifest, by seq
  std::optional<CommitReference> best;
  std::set<Step> pins;

  std::string path(std::string_view name) const { return join_path(options.root, name); }
  /// `<prefix>step-00000024-<token>`, a name nobody used before.
  std::string hidden_path(std::string_view prefix, Step step);
  Status sync_root();

  /// Removes and puts back what a dead writer left; reads the root.
  Status recover();
  Status recover_entry(const DirectoryEntry& entry);
  Status read_root();

  /// Steps of a commit after the request was checked; fill in `committed`. Need commit_mutex.
  Status write_and_publish(CommitAttempt& attempt, Committed& committed);
  Status publish(const std::string& temporary, const CommitAttempt& attempt, Committed& committed);
  Result<bool> accept_existing(const CommitAttempt& attempt, Committed& committed);
  /// CURRENT, best.json, retention: what fails here becomes a warning.
  void follow_up(bool best, Committed& committed);

  /// Makes `commit` the best, or forgets the best. Needs commit_mutex.
  Status change_best(const std::optional<CommitReference>& commit);
  /// Removes the commits that retention does not keep. Needs commit_mutex.
  Status apply_retention(std::vector<std::string>& removed);
  std::vector<CommitReference> superfluous() const;
};

}  // namespace parascale::checkpoint
