// What the committer must survive: the n-th call failing, and power cuts at every moment. The oracle knows what was acknowledged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parascale/checkpoint/best.h"
#include "parascale/checkpoint/committer.h"
#include "parascale/checkpoint/tests/sample_checkpoint.h"
#include "tests/support/matchers.h"
#include "tests/support/memory_file_system.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::CrashBudget;
using parascale::testing::for_each_crash_state;
using parascale::testing::is_error;
using parascale::testing::is_ok;
using parascale::testing::MemoryFileSystem;
using testing::fingerprint;
using testing::SampleCheckpoint;
using testing::StepClock;
using Call = MemoryFileSystem::Call;
using Fault = MemoryFileSystem::Fault;

const std::string kRoot = "/run/checkpoints";

bool deep() { return std::getenv("PARASCALE_DEEP") != nullptr; }

CrashBudget budget() { return deep() ? CrashBudget{.exhaustive_pending = 12, .samples = 2000} : CrashBudget{}; }

/// One commit of the scenario: which step, with which content, best or not.
struct Planned {
  std::uint64_t step;
  std::uint64_t salt;
  bool best = false;
  bool reopen = false;  ///< by a new committer, as after a restart
};

struct Plan {
  std::uint64_t keep_last;
  std::vector<Planned> commits;
};
/// A rolling retention of one besides zero and best, a rerun that replaces a step, a best that moves.
const Plan kFull = {1, {{0, 100}, {8, 108, true}, {16, 116}, {24, 124}, {16, 216, false, true}, {24, 224, true}, {32, 132}}};
const Planned kAfterRestart = {40, 140};
/// Nothing but commits: no sync can hide the absence of another.
const Plan kPlain = {0, {{0, 300}, {8, 308}, {16, 316, false, true}}};

/// What the outside world was told.
class Oracle {
 public:
  struct Promise {
    std::uint64_t seq = 0;
    std::uint64_t step = 0;
    std::size_t after_operation = 0;  ///< operations logged when it was acknowledged
  };

  void acknowledge(const Promise& promise, bool best) {
    promises_.push_back(promise);
    if (best) {
      best_.push_back(promise);
    }
  }
  void attempt(std::uint64_t step, const std::string& print) { prints_.emplace(step, print); }

  /// The promises that hold at a moment, as text.
  std::string promises_at(std::size_t moment) const {
    const Promise* newest = last_before(promises_, moment);
    const Promise* best = last_before(best_, moment);
    return std::to_string(newest == nullptr ? 0 : newest->seq) + "/" + std::to_string(best == nullptr ? 0 : best->seq);
  }

  /// Returns what is wrong with a disk after a crash and the recovery by a new committer; nothing when all promises hold.
  std::optional<std::string> check(MemoryFileSystem& disk, std::size_t moment) const {
    StepClock clock;
    const auto committer = Committer::open(disk, clock, {.root = kRoot, .keep_last = 1});
    if (!committer.ok()) {
      return "recovery failed: " + render(committer.error());
    }
    const auto listed = list_checkpoints(disk, kRoot);
    if (!listed.ok()) {
      return "the root cannot be listed";
    }
    std::uint64_t newest_seq = 0;
    for (const auto& checkpoint : *listed) {
      const auto print = fingerprint(disk, checkpoint.path);
      if (!print.ok()) {
        return "a partial checkpoint is visible: " + render(print.error());
      }
      if (!is_known(checkpoint.step.value, *print)) {
        return "a checkpoint holds other bytes than were committed: " + checkpoint.path;
      }
      newest_seq = std::max(newest_seq, checkpoint.manifest->seq);
    }
    for (const auto& path : disk.tree()) {
      if (path.find("/.") != std::string::npos || path.find(".tmp-") != std::string::npos) {
        return "a leftover stayed: " + path;
      }
    }
    const Promise* newest = last_before(promises_, moment);
    if (newest != nullptr && newest_seq < newest->seq) {
      return "the acknowledged step " + std::to_string(newest->step) + " is gone";
    }
    return check_pointers(disk, moment);
  }

 private:
  static const Promise* last_before(const std::vector<Promise>& promises, std::size_t moment) {
    const Promise* last = nullptr;
    for (const auto& promise : promises) {
      last = promise.after_operation <= moment ? &promise : last;
    }
    return last;
  }

  bool is_known(std::uint64_t step, const std::string& print) const { return prints_.contains({step, print}); }

  std::optional<std::string> check_pointers(MemoryFileSystem& disk, std::size_t moment) const {
    if (disk.exists(kRoot + "/CURRENT") && !read_current(disk, kRoot)) {
      return "CURRENT is torn";
    }
    const auto best = read_best(disk, kRoot);
    if (!best.ok()) {
      return "best.json is torn: " + render(best.error());
    }
    const Promise* promised = last_before(best_, moment);
    if (promised != nullptr && (!*best || (*best)->seq < promised->seq)) {
      return "best.json does not point to the acknowledged best";
    }
    if (promised != nullptr && !resolve_reference(disk, "/run/best").ok()) {
      return "the best checkpoint is gone";
    }
    return std::nullopt;
  }

  std::set<std::pair<std::uint64_t, std::string>> prints_;  ///< step and content of everything that was ever to be committed
  std::vector<Promise> promises_;
  std::vector<Promise> best_;
};

/// What one commit writes, made once: the suite runs the plans thousands of times.
struct Content {
  std::unique_ptr<SampleCheckpoint> sample;
  std::string print;  ///< what loads from it when nothing goes wrong
};

const Content& content(const Planned& planned) {
  static std::map<std::uint64_t, Content> made;
  Content& out = made[planned.salt];
  if (out.sample == nullptr) {
    StepClock clock;
    MemoryFileSystem quiet;
    out.sample = std::make_unique<SampleCheckpoint>(planned.step, planned.salt);
    out.sample->request.best = planned.best;
    const auto committed = Committer::open(quiet, clock, {.root = kRoot}).value()->commit(out.sample->request).value();
    out.print = fingerprint(quiet, committed.path).value();
  }
  return out;
}

/// Runs a plan on `files`; a commit that fails is not acknowledged, the next goes on with the same committer as a run would.
class Scenario {
 public:
  explicit Scenario(const Plan& plan = kFull) : plan_(plan) {
    for (const auto& planned : plan_.commits) {
      oracle.attempt(planned.step, content(planned).print);
    }
    oracle.attempt(kAfterRestart.step, content(kAfterRestart).print);
    PS_CHECK(make_directories(files, kRoot).ok(), "the root can be made");
    files.make_durable();
    files.forget_calls();
  }

  void run() {
    std::unique_ptr<Committer> committer;
    for (const auto& planned : plan_.commits) {
      if (planned.reopen && stop_at_reopen && failures + warnings > 0) {
        return;
      }
      if (committer == nullptr || planned.reopen) {
        auto opened = Committer::open(files, clock, {.root = kRoot, .keep_last = plan_.keep_last});
        if (!opened.ok()) {
          ++failures;
          return;
        }
        committer = std::move(opened).value();
      }
      const auto committed = committer->commit(content(planned).sample->request);
      if (!committed.ok()) {
        ++failures;
        EXPECT_EQ(exit_code(committed.error().kind()), 5) << render(committed.error());
        continue;
      }
      warnings += committed->warnings.size();
      oracle.acknowledge({committed->seq, planned.step, files.operations()}, planned.best && committed->warnings.empty());
      if (check_listing) {
        const auto listed = list_checkpoints(files, kRoot);
        const auto steps = committer->steps();
        consistent = consistent && listed.ok() && std::ranges::is_permutation(*listed, steps, {}, &CheckpointEntry::step);
      }
    }
  }

  /// What a start after a dead process does: recover and commit once more. Retention goes on as before.
  void restart() {
    const auto committer = Committer::open(files, clock, {.root = kRoot, .keep_last = plan_.keep_last});
    ASSERT_THAT(committer, is_ok());
    const auto committed = (*committer)->commit(content(kAfterRestart).sample->request);
    ASSERT_THAT(committed, is_ok());
    oracle.acknowledge({committed->seq, kAfterRestart.step, files.operations()}, false);
  }

  MemoryFileSystem files;
  StepClock clock;
  Oracle oracle;
  std::size_t failures = 0;
  std::size_t warnings = 0;
  bool check_listing =
      false;               ///< after each commit, compare the directory with what the committer believes; makes calls of its own
  bool consistent = true;  ///< they were equal
  bool stop_at_reopen = false;  ///< once something failed: a disk that lost a sync must be checked before it is used again

 private:
  const Plan& plan_;
};

/// Looks for a crash state that breaks a promise. A verdict depends on the disk and the newest promises only, so equal states are
/// judged once; what lies inside a temporary or deleted directory does not matter, because recovery removes it whole.
std::optional<std::string> find_violation(const Scenario& scenario, const CrashBudget& crash_budget,
                                          std::size_t* visited = nullptr) {
  static std::map<std::pair<std::uint64_t, std::string>, std::optional<std::string>> verdicts;
  std::optional<std::string> violation;
  const std::size_t states = for_each_crash_state(
      scenario.files, crash_budget, [&](MemoryFileSystem& disk, std::size_t moment, const std::string& description) {
        const std::uint64_t digest =
            disk.digest([](std::string_view name) { return name.starts_with(".tmp-") || name.starts_with(".del-"); });
        const auto [verdict, is_new] = verdicts.try_emplace({digest, scenario.oracle.promises_at(moment)});
        if (is_new) {
          verdict->second = scenario.oracle.check(disk, moment);
        }
        if (verdict->second) {
          violation = description + ": " + *verdict->second;
        }
        return !violation.has_value();
      });
  if (visited != nullptr) {
    *visited = states;
  }
  return violation;
}

/// From the moment of the injected fault on, for about two commits: what lies before is what the run without a fault covers.
CrashBudget after_fault(const Scenario& scenario, std::uint64_t seed) {
  const std::size_t moment = scenario.files.fault_moment();
  return {.exhaustive_pending = deep() ? 9U : 4U,
          .samples = deep() ? 100U : 10U,
          .one_by_one = deep(),
          .seed = seed,
          .first_moment = moment,
          .last_moment = moment + 55};
}

TEST(Crash, every_state_recovers_to_what_was_acknowledged) {
  Scenario scenario;
  scenario.check_listing = true;
  scenario.run();
  ASSERT_EQ(scenario.failures, 0U);
  ASSERT_EQ(scenario.warnings, 0U);
  ASSERT_TRUE(scenario.consistent);
  std::size_t visited = 0;
  const auto violation = find_violation(scenario, budget(), &visited);
  EXPECT_EQ(violation, std::nullopt) << *violation;
  EXPECT_GT(visited, 10'000U) << "the enumeration must have had something to choose from";
}

TEST(Crash, the_nth_call_failing_breaks_no_promise) {
  const auto takes_space = [](const MemoryFileSystem::Record& r) { return r.call == Call::write || r.call == Call::allocate; };
  for (const Fault fault : {Fault::io_error, Fault::no_space, Fault::short_write}) {
    std::size_t fired = 0;
    for (std::uint64_t n = 1;; ++n) {
      Scenario scenario;
      if (fault == Fault::io_error) {
        scenario.files.inject(n, fault);
      } else {
        scenario.files.inject_matching(n, fault, takes_space);
      }
      scenario.run();
      if (!scenario.files.fault_fired()) {
        break;
      }
      ++fired;
      scenario.files.inject(0, fault);
      scenario.files.make_durable();
      const auto wrong = scenario.oracle.check(scenario.files, std::numeric_limits<std::size_t>::max());
      ASSERT_EQ(wrong, std::nullopt) << "call " << n << ": " << *wrong;
    }
    EXPECT_GT(fired, fault == Fault::io_error ? 300U : 40U);
  }
}

TEST(Crash, a_failed_sync_is_never_turned_into_success) {
  const auto is_sync = [](const MemoryFileSystem::Record& r) { return r.call == Call::sync || r.call == Call::sync_directory; };
  std::size_t fired = 0;
  for (std::uint64_t n = 1;; ++n) {
    Scenario scenario;
    scenario.stop_at_reopen = true;
    scenario.files.inject_matching(n, Fault::io_error, is_sync);
    scenario.run();
    if (!scenario.files.fault_fired()) {
      break;
    }
    ++fired;
    ASSERT_GT(scenario.failures + scenario.warnings, 0U) << "sync " << n << " failed and nobody was told";
    // What that sync should have made durable stays losable for ever, so a retry that reported success would show here.
    const auto violation = find_violation(scenario, after_fault(scenario, n));
    ASSERT_EQ(violation, std::nullopt) << "sync " << n << ": " << *violation;
  }
  EXPECT_GT(fired, 50U);
}

TEST(Crash, a_power_cut_after_the_restart_of_a_killed_process_loses_nothing) {
  const auto changes_names = [](const MemoryFileSystem::Record& r) {
    return r.call == Call::rename || r.call == Call::sync_directory || r.call == Call::remove_file ||
           r.call == Call::remove_directory;
  };
  std::size_t killed = 0;
  for (std::uint64_t n = 1;; ++n) {
    Scenario scenario;
    scenario.files.inject_matching(n, Fault::stop, changes_names);
    scenario.run();
    if (!scenario.files.fault_fired()) {
      break;
    }
    ++killed;
    const CrashBudget crash_budget = after_fault(scenario, n);
    scenario.files.inject(0, Fault::stop);
    scenario.restart();
    const auto violation = find_violation(scenario, crash_budget);
    ASSERT_EQ(violation, std::nullopt) << "killed at change " << n << ": " << *violation;
  }
  EXPECT_GT(killed, 60U);
}

TEST(Crash, after_a_failed_sync_of_the_root_nothing_is_acknowledged_any_more) {
  MemoryFileSystem files;
  StepClock clock;
  auto committer = Committer::open(files, clock, {.root = kRoot}).value();
  files.inject_matching(1, Fault::io_error,
                        [](const MemoryFileSystem::Record& r) { return r.call == Call::sync_directory && r.path == kRoot; });
  SampleCheckpoint first(8);
  SampleCheckpoint second(16);
  EXPECT_THAT(committer->commit(first.request), is_error(Code::checkpoint_write_failed));
  EXPECT_THAT(committer->commit(first.request), is_error(Code::checkpoint_write_failed));
  EXPECT_THAT(committer->commit(second.request), is_error(Code::checkpoint_write_failed));
}

TEST(Crash, a_full_disk_says_so_and_leaves_nothing) {
  for (std::uint64_t n = 1; n <= 6; ++n) {
    MemoryFileSystem files;
    StepClock clock;
    auto committer = Committer::open(files, clock, {.root = kRoot}).value();
    files.inject_matching(n, Fault::no_space,
                          [](const MemoryFileSystem::Record& r) { return r.call == Call::write || r.call == Call::allocate; });
    SampleCheckpoint sample(8);
    const auto committed = committer->commit(sample.request);
    ASSERT_THAT(committed, is_error(Code::disk_full));
    EXPECT_THAT(files.list(kRoot), parascale::testing::is_ok_and_holds(::testing::IsEmpty()));
    EXPECT_THAT(committer->commit(sample.request), is_ok()) << "the run goes on and the next attempt works";
  }
}

/// The suite must notice when the product leaves out a step: each sync and rename in turn is turned into a lie.
class MetaTest : public ::testing::Test {
 protected:
  /// Runs a plan with the n-th call of a kind being a lie, for every n; returns the paths of those that nothing noticed.
  static std::vector<std::string> unnoticed(const Plan& plan, const std::function<bool(const MemoryFileSystem::Record&)>& match,
                                            std::size_t& lies) {
    std::vector<std::string> out;
    for (std::uint64_t n = 1;; ++n) {
      Scenario scenario(plan);
      scenario.check_listing = true;
      std::string lied_about;
      std::uint64_t seen = 0;
      scenario.files.inject_matching(n, Fault::lie, [&](const MemoryFileSystem::Record& r) {
        if (!match(r)) {
          return false;
        }
        if (++seen == n) {
          lied_about = r.path;
        }
        return true;
      });
      scenario.run();
      if (!scenario.files.fault_fired()) {
        return out;
      }
      ++lies;
      const bool noticed = scenario.failures + scenario.warnings > 0 || !scenario.consistent;
      if (!noticed && !find_violation(scenario, after_fault(scenario, n))) {
        out.push_back(lied_about);
      }
    }
  }

  static bool is_directory_sync(const MemoryFileSystem::Record& r) { return r.call == Call::sync_directory; }
};

TEST_F(MetaTest, every_file_sync_is_needed) {
  std::size_t lies = 0;
  EXPECT_THAT(
      unnoticed(kFull, [](const MemoryFileSystem::Record& r) { return r.call == Call::sync; }, lies), ::testing::IsEmpty());
  EXPECT_GT(lies, 40U);
}

TEST_F(MetaTest, every_directory_sync_of_a_commit_is_needed) {
  std::size_t lies = 0;
  EXPECT_THAT(unnoticed(kPlain, is_directory_sync, lies), ::testing::IsEmpty());
  EXPECT_EQ(lies, 3 * kPlain.commits.size()) << "training/, the step directory, the root";
}

TEST_F(MetaTest, a_directory_sync_may_only_be_covered_by_a_later_one_of_the_same_commit) {
  std::size_t lies = 0;
  // Best and retention sync the root again before the commit returns, so one of these syncs may be left out; no other.
  const auto missed = unnoticed(kFull, is_directory_sync, lies);
  EXPECT_THAT(missed, ::testing::Each(kRoot));
  EXPECT_LE(missed.size(), 7U);
  EXPECT_GT(lies, 24U);
}

TEST_F(MetaTest, every_rename_is_needed) {
  std::size_t lies = 0;
  const auto missed = unnoticed(kFull, [](const MemoryFileSystem::Record& r) { return r.call == Call::rename; }, lies);
  EXPECT_THAT(missed, ::testing::Each(kRoot + "/CURRENT")) << "CURRENT is a hint";
  EXPECT_GT(lies, 15U);
}

}  // namespace
}  // namespace parascale::checkpoint
