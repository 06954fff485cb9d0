#include "parascale/data/engine.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "parascale/base/clock.h"
#include "parascale/data/index_store.h"
#include "parascale/data/options.h"
#include "parascale/data/slot_filler.h"
#include "parascale/protocol/messages.h"
#include "parascale/protocol/region.h"
#include "parascale/protocol/slot.h"

namespace parascale::data {

namespace {

constexpr int kNice = 5;
constexpr std::int64_t kProgressIntervalNs = 200'000'000;

double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Status limit_memory(std::uint64_t bytes) {
  if (bytes == 0) {
    return {};
  }
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) {
    return io_error("limit the memory of", "the data engine", errno);
  }
  return {};
}

/// One life of the engine on one channel. *confined to one thread*
class Engine {
 public:
  Engine(protocol::Channel channel, FileSystem& files) : channel_(std::move(channel)), files_(files) {}

  Status run() {
    Status outcome = live();
    if (!outcome.ok() && channel_.valid()) {
      (void)channel_.send(report(outcome.error()));  // the agent may be gone; the outcome is what counts
    }
    return outcome;
  }

 private:
  Status live() {
    PS_TRY(channel_.send(protocol::Hello{
        .protocol = std::string(protocol::kProtocolVersion), .role = "engine", .pid = getpid(), .torch = {}, .capabilities = {}}
                             .to_json()));
    while (!done_) {
      if (fills_.empty()) {
        PS_ASSIGN(auto frame, channel_.receive());
        if (!frame) {
          return {};  // the agent is gone, and with it the run
        }
        PS_TRY(handle(*frame));
      } else {
        PS_ASSIGN(const bool open, channel_.read_available());
        if (!open) {
          return {};
        }
      }
      PS_TRY(handle_arrived());
      if (!done_ && !fills_.empty()) {
        PS_TRY(fill_next());
      }
    }
    return {};
  }

  Status handle_arrived() {
    while (!done_) {
      PS_ASSIGN(auto frame, channel_.take());
      if (!frame) {
        break;
      }
      PS_TRY(handle(*frame));
    }
    return {};
  }

  Status handle(protocol::Frame& frame) {
    const std::string type = frame.type();
    if (type == "hello") {
      PS_ASSIGN(const auto hello, protocol::Hello::from_json(frame.message));
      PS_TRY(protocol::check_version(hello));
      greeted_ = true;
      return {};
    }
    if (type == "stop") {
      return stop();
    }
    if (type != "open" && type != "fill") {
      const Json* id = frame.message.find("id");
      return id == nullptr ? Status() : channel_.send(Json::object({{"type", "unsupported"}, {"id", *id}}));
    }
    if (!greeted_) {
      return Error(Code::protocol_violation, fmt::format("`{}` arrived before `hello`", type));
    }
    if (type == "open") {
      return open(frame);
    }
    if (filler_ == nullptr) {
      return Error(Code::protocol_violation, "`fill` arrived before `open`");
    }
    PS_ASSIGN(auto fill, protocol::Fill::from_json(frame.message));
    fills_.push_back(std::move(fill));
    return {};
  }

  Status open(protocol::Frame& frame) {
    if (filler_ != nullptr) {
      return Error(Code::protocol_violation, "`open` arrived twice");
    }
    if (frame.descriptors.size() != 1) {
      return Error(Code::protocol_violation,
                   fmt::format("`open` carries {} descriptors instead of one", frame.descriptors.size()));
    }
    PS_ASSIGN(const Json options_json, frame.message.get<Json>("options"));
    PS_ASSIGN(const auto options, DataOptions::from_json(options_json));
    PS_ASSIGN(const Json layout_json, frame.message.get<Json>("layout"));
    PS_ASSIGN(auto layout, protocol::SlotLayout::from_json(layout_json));
    PS_TRY(limit_memory(options.memory_limit_bytes));
    PS_ASSIGN(region_,
              protocol::Region::map(std::move(frame.descriptors.front()), layout.region_bytes(), protocol::Access::read_write));
    PS_ASSIGN(filler_, SlotFiller::make(options, std::move(layout), region_.bytes()));
    Json opened = Json::object();
    PS_ASSIGN(const Json splits, frame.message.get<Json>("splits"));
    for (const auto& item : splits.items()) {
      const std::string name = item.to_string() != nullptr ? *item.to_string() : item.dump();
      const auto split = split_from_name(name);
      if (!split) {
        return Error(Code::protocol_violation, fmt::format("`open` names an unknown split `{}`", name));
      }
      PS_ASSIGN(auto index, open_index(options, *split, files_, progress(name)));
      opened[name] = index->summary.to_json();
      filler_->add_split(*split, std::move(index), files_);
    }
    region_.populate();
    return channel_.send(Json::object({{"type", "opened"}, {"splits", std::move(opened)}}));
  }

  IndexProgressCallback progress(const std::string& split) {
    return [this, split, last = std::int64_t{0}](const IndexProgress& done) mutable {
      const std::int64_t now = real_clock().monotonic_ns();
      if (now - last < kProgressIntervalNs) {
        return;
      }
      last = now;
      // A send that fails shows again at the next frame.
      (void)channel_.send(Json::object(
          {{"type", "progress"}, {"what", "index"}, {"split", split}, {"bytes_done", done.bytes_done}, {"bytes", done.bytes}}));
    };
  }

  Status fill_next() {
    const protocol::Fill request = std::move(fills_.front());
    fills_.pop_front();
    PS_ASSIGN(const auto filled, filler_->fill(request));
    ++slots_;
    return channel_.send(filled.to_json());
  }

  Status stop() {
    done_ = true;
    const ReadCounts counts = filler_ != nullptr ? filler_->counts() : ReadCounts{};
    return channel_.send(Json::object({{"type", "bye"},
                                       {"cpu_seconds", process_cpu_seconds()},
                                       {"slots", slots_},
                                       {"reads", counts.reads},
                                       {"failures", counts.failures}}));
  }

  static Json report(const Error& error) {
    std::string message = error.message();
    for (const Error* cause = error.cause(); cause != nullptr; cause = cause->cause()) {
      message += fmt::format(": {}", cause->message());
    }
    const std::string_view error_class = error.code() == Code::too_many_failures  ? "data"
                                         : error.code() == Code::version_mismatch ? "version"
                                                                                  : "internal";
    return Json::object({{"type", "error"},
                         {"class", error_class},
                         {"code", code_text(error.code())},
                         {"message", message},
                         {"notes", Json::array_of(error.notes())},
                         {"helps", Json::array_of(error.helps())}});
  }

  protocol::Channel channel_;
  FileSystem& files_;
  bool greeted_ = false;
  bool done_ = false;
  protocol::Region region_;
  std::unique_ptr<SlotFiller> filler_;  ///< its threads write to the region: declared after it
  std::deque<protocol::Fill> fills_;    ///< bounded by the agent's credits
  std::uint64_t slots_ = 0;
};

}  // namespace

Status run_engine(protocol::Channel channel, FileSystem& files) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  Engine engine(std::move(channel), files);
  try {
    return engine.run();
  } catch (const std::exception& failure) {
    return Error(Code::engine_stopped, fmt::format("the data engine failed: {}", failure.what()));
  }
}

}  // namespace parascale::data
