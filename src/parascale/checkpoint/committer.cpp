#include "parascale/checkpoint/committer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "parascale/checkpoint/committer_state.h"
#include "parascale/checkpoint/store.h"

namespace parascale::checkpoint {

namespace {

Error write_failed(const Error& cause, Step step) {
  const bool full = cause.message().ends_with(std::generic_category().message(ENOSPC));
  const Code code = full ? Code::disk_full : cause.kind() == ErrorKind::checkpoint ? cause.code() : Code::checkpoint_write_failed;
  return cause.wrap(code, fmt::format("the checkpoint of step {} was not written", step.value));
}

/// The manifest of a directory of which every byte verifies.
std::optional<Manifest> read_verified(FileSystem& files, const std::string& directory) {
  auto manifest = read_manifest(files, directory);
  if (manifest.ok() && verify_files(files, directory, *manifest, VerifyLevel::hashes).ok()) {
    return std::move(manifest).value();
  }
  return std::nullopt;
}

/// `<directory>.bad-damaged`, or with a number when that is taken.
std::string quarantine_path(FileSystem& files, const std::string& directory) {
  std::string path = directory + ".bad-damaged";
  for (int i = 2; files.exists(path); ++i) {
    path = fmt::format("{}.bad-damaged-{}", directory, i);
  }
  return path;
}

}  // namespace

std::string Committer::State::hidden_path(std::string_view prefix, Step step) {
  return path(fmt::format("{}{}-{:x}-{}-{}", prefix, step_directory_name(step), clock.monotonic_ns(), getpid(), ++next_token));
}

Status Committer::State::sync_root() {
  Status synced = files.sync_directory(options.root);
  if (!synced.ok() && !broken) {
    broken = synced.error().wrap(Code::checkpoint_write_failed,
                                 fmt::format("`{}` could not be synced, so what it holds on disk is unknown", options.root));
    broken->help("check the disk, then resume the run");
  }
  return synced;
}

Result<bool> Committer::State::accept_existing(const CommitAttempt& attempt, Committed& committed) {
  const auto existing = read_verified(files, committed.path);
  if (!existing) {
    return false;
  }
  {
    const std::scoped_lock lock(mutex);
    if (known.empty() || known.back().seq != existing->seq) {
      return false;  // an older commit must not stand in for the newest one
    }
  }
  if (!attempt.same_content(*existing)) {
    return false;
  }
  PS_TRY(sync_root());  // its writer may have died between the rename and the sync
  committed.already_committed = true;
  committed.seq = existing->seq;
  committed.manifest_hash = existing->self_hash;
  for (const auto& file : existing->files) {
    committed.size_bytes += file.size_bytes;
  }
  return true;
}

Status Committer::State::write_and_publish(CommitAttempt& attempt, Committed& committed) {
  PS_TRY(attempt.check_space());
  const std::string temporary = hidden_path(kTemporaryPrefix, committed.step);
  Status written = attempt.write(temporary);
  if (written.ok()) {
    const Stopwatch watch(clock, attempt.times().sync);
    written = publish(temporary, attempt, committed);
  }
  if (!written.ok()) {
    (void)remove_tree(files, temporary);  // best effort: the error before it is what counts, and `open` removes it at the latest
    return written;
  }
  committed.manifest_hash = attempt.manifest().self_hash;
  committed.size_bytes = attempt.size_bytes();
  committed.write_time = attempt.times().write;
  committed.hash_time = attempt.times().hash;
  committed.sync_time = attempt.times().sync;
  ++next_seq;
  return {};
}

/// The commit point: the temporary directory takes the name of its step, and the root is synced.
Status Committer::State::publish(const std::string& temporary, const CommitAttempt& attempt, Committed& committed) {
  std::optional<std::string> parked;
  if (files.exists(committed.path)) {
    const bool whole = read_verified(files, committed.path).has_value();
    const std::string aside = whole ? hidden_path(kParkedPrefix, committed.step) : quarantine_path(files, committed.path);
    PS_TRY(files.rename_new(committed.path, aside));
    (whole ? parked : committed.set_aside) = aside;
  }
  if (Status renamed = files.rename_new(temporary, committed.path); !renamed.ok()) {
    if (parked) {
      (void)files.rename_new(*parked, committed.path);  // best effort; `open` does it at the latest
    }
    return renamed;
  }
  PS_TRY(sync_root());
  {
    const std::scoped_lock lock(mutex);
    std::erase_if(known, [&](const CommitReference& c) { return c.step == committed.step; });
    known.push_back({committed.step, committed.seq, attempt.manifest().self_hash});
  }
  if (parked) {
    if (Status removed = remove_tree(files, *parked); !removed.ok()) {
      committed.warnings.push_back(removed.error());
    }
  }
  return {};
}

void Committer::State::follow_up(bool is_best, Committed& committed) {
  const auto warn = [&](const Status& status) {
    if (!status.ok()) {
      committed.warnings.push_back(status.error());
    }
  };
  const CommitReference self{committed.step, committed.seq, committed.manifest_hash};
  warn(write_current(files, options.root, self));
  bool stale = false;
  {
    const std::scoped_lock lock(mutex);
    stale = best && best->step == self.step && *best != self;
  }
  if (is_best) {
    warn(change_best(self));
  } else if (stale) {
    warn(change_best(std::nullopt));  // it pointed to the commit that was replaced
  }
  warn(apply_retention(committed.removed));
}

Status Committer::State::change_best(const std::optional<CommitReference>& commit) {
  if (commit) {
    {
      const std::scoped_lock lock(mutex);
      best = commit;  // protected from now on, even if the pointer cannot be written
    }
    if (Status written = write_best(files, options.root, *commit); !written.ok()) {
      best_unreadable = written.error();  // the disk may still point to the one before: keep everything
      return written;
    }
  } else {
    if (files.exists(path(kBestName))) {
      PS_TRY(files.remove_file(path(kBestName)));
    }
    const std::scoped_lock lock(mutex);
    best.reset();
  }
  best_unreadable.reset();
  return {};
}

std::vector<CommitReference> Committer::State::superfluous() const {
  const std::scoped_lock lock(mutex);
  std::vector<CommitReference> out;
  std::uint64_t kept = 0;
  for (auto commit = known.rbegin(); options.keep_last != 0 && commit != known.rend(); ++commit) {
    const bool is_best = options.keep_best && best && *best == *commit;
    const bool pinned = commit->step == Step{0} || is_best || pins.contains(commit->step);
    if (!pinned && kept++ >= options.keep_last) {
      out.push_back(*commit);
    }
  }
  return out;
}

Status Committer::State::apply_retention(std::vector<std::string>& removed) {
  if (best_unreadable) {
    return best_unreadable->wrap(Code::checkpoint_write_failed,
                                 "no checkpoint was removed, because what best.json points to is not known");
  }
  std::vector<std::string> doomed;
  for (const auto& commit : superfluous()) {
    const std::string name = path(step_directory_name(commit.step));
    const std::string hidden = hidden_path(kDeletedPrefix, commit.step);
    PS_TRY(files.rename_new(name, hidden));
    doomed.push_back(hidden);
    removed.push_back(name);
    const std::scoped_lock lock(mutex);
    std::erase(known, commit);
  }
  if (doomed.empty()) {
    return {};
  }
  PS_TRY(sync_root());  // else a crash could bring the name back without the files
  for (const auto& hidden : doomed) {
    PS_TRY(remove_tree(files, hidden));
  }
  return {};
}

Status Committer::State::recover() {
  PS_ASSIGN(const auto entries, files.list(options.root));
  if (std::ranges::any_of(entries, [](const DirectoryEntry& e) { return e.name.starts_with(kDeletedPrefix); })) {
    PS_TRY(sync_root());  // its writer may have died before the new name was durable; then a power cut would bring back a name
                          // without files
  }
  for (const auto& entry : entries) {
    PS_TRY(recover_entry(entry));
  }
  return read_root();
}

Status Committer::State::recover_entry(const DirectoryEntry& entry) {
  const std::string at = path(entry.name);
  const auto is_leftover_of = [&](std::string_view name) { return entry.name.starts_with(fmt::format("{}.tmp-", name)); };
  if (entry.name.starts_with(kParkedPrefix)) {
    // `.old-step-00000024-<token>`: the name it had stands between the prefix and the token.
    const std::string rest = entry.name.substr(kParkedPrefix.size());
    const std::string name = rest.substr(0, rest.find('-', rest.find('-') + 1));
    if (parse_step_directory_name(name) && !files.exists(path(name))) {
      recovered.push_back(fmt::format("{} put back as {}", entry.name, name));
      return files.rename_new(at, path(name));
    }
  } else if (!entry.name.starts_with(kTemporaryPrefix) && !entry.name.starts_with(kDeletedPrefix) &&
             !is_leftover_of(kCurrentName) && !is_leftover_of(kBestName)) {
    return {};
  }
  recovered.push_back(fmt::format("{} removed", entry.name));
  return remove_tree(files, at);
}

Status Committer::State::read_root() {
  PS_ASSIGN(const auto checkpoints, list_checkpoints(files, options.root));
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint) {
    if (const auto& manifest = checkpoint->manifest) {
      known.push_back({manifest->step, manifest->seq, manifest->self_hash});
    }
  }
  next_seq = known.empty() ? 1 : known.back().seq + 1;
  if (const auto current = read_current(files, options.root)) {
    next_seq = std::max(next_seq, current->seq + 1);  // the newest manifest may be damaged
  }
  const auto stored = read_best(files, options.root);
  if (!stored.ok()) {
    best_unreadable = stored.error();
    recovered.push_back(fmt::format("{} cannot be read; nothing is removed until it is set anew", kBestName));
  } else if (*stored && std::ranges::find(known, **stored) == known.end()) {
    recovered.push_back(fmt::format("{} points to a commit of step {} that is not there", kBestName, (*stored)->step.value));
  } else {
    best = *stored;
  }
  return {};
}

Committer::Committer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Committer::~Committer() = default;

Result<std::unique_ptr<Committer>> Committer::open(FileSystem& files, const Clock& clock, CheckpointOptions options) {
  auto state = std::make_unique<State>(files, clock, std::move(options));
  PS_TRY(make_directories(files, state->options.root));
  PS_TRY(state->recover());
  return std::unique_ptr<Committer>(new Committer(std::move(state)));
}

Result<Committed> Committer::commit(const CommitRequest& request) {
  State& state = *state_;
  const std::scoped_lock lock(state.commit_mutex);
  if (state.broken) {
    return write_failed(*state.broken, request.step);
  }
  Committed committed{.step = request.step, .seq = state.next_seq, .path = state.path(step_directory_name(request.step))};
  {
    const Stopwatch watch(state.clock, committed.total_time);
    CommitAttempt attempt(state.files, state.clock, state.options, request);
    Status written = attempt.prepare(state.next_seq);
    if (written.ok()) {
      const auto accepted = state.accept_existing(attempt, committed);
      written = !accepted.ok() ? Status(accepted.error()) : *accepted ? Status() : state.write_and_publish(attempt, committed);
    }
    if (!written.ok()) {
      return write_failed(written.error(), request.step);
    }
    state.follow_up(request.best, committed);
  }
  return committed;
}

Status Committer::set_best(std::optional<Step> step) {
  const std::scoped_lock lock(state_->commit_mutex);
  if (!step) {
    return state_->change_best(std::nullopt);
  }
  std::optional<CommitReference> commit;
  {
    const std::scoped_lock known_lock(state_->mutex);
    const auto found = std::ranges::find(state_->known, *step, &CommitReference::step);
    if (found != state_->known.end()) {
      commit = *found;
    }
  }
  if (!commit) {
    return Error(Code::checkpoint_not_found,
                 fmt::format("`{}` holds no checkpoint of step {}", state_->options.root, step->value));
  }
  return state_->change_best(commit);
}

std::optional<Step> Committer::best() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->best ? std::optional(state_->best->step) : std::nullopt;
}

void Committer::pin(Step step) {
  const std::scoped_lock lock(state_->mutex);
  state_->pins.insert(step);
}

void Committer::unpin(Step step) {
  const std::scoped_lock lock(state_->mutex);
  state_->pins.erase(step);
}

std::vector<Step> Committer::steps() const {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Step> steps;
  for (const auto& commit : state_->known) {
    steps.push_back(commit.step);
  }
  return steps;
}

const std::vector<std::string>& Committer::recovered() const { return state_->recovered; }

}  // namespace parascale::checkpoint
