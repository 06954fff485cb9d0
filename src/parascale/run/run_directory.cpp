#include "parascale/run/run_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "parascale/base/clock.h"
#include "parascale/base/text.h"

namespace parascale::run {

Result<RunLock> RunLock::take(const std::string& directory) {
  PS_TRY(make_directories(real_file_system(), directory));
  PS_TRY(make_directories(real_file_system(), join_path(directory, "logs")));
  const std::string path = join_path(directory, "LOCK");
  RunLock lock;
  lock.fd_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.fd_.valid()) {
    return io_error("open", path, errno);
  }
  if (flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(Code::run_locked, fmt::format("another process writes to `{}`", directory))
        .note(fmt::format("`{}` is held by process {}", path, trim(read_small_file(path))))
        .help("wait for it, stop it with SIGTERM, or choose another `runtime.run_dir`");
  }
  const std::string holder = fmt::format("{}\n", getpid());
  if (ftruncate(lock.fd_.get(), 0) != 0 || pwrite(lock.fd_.get(), holder.data(), holder.size(), 0) < 0) {
    return io_error("write", path, errno);
  }
  return lock;
}

bool holds_run(const RunPaths& paths) {
  return real_file_system().exists(paths.events()) || real_file_system().exists(paths.metrics());
}

Result<RecordWriter> RecordWriter::open(const RunPaths& paths, std::vector<EventSink*> sinks) {
  RecordWriter writer;
  writer.paths_ = paths;
  writer.sinks_ = std::move(sinks);
  FileSystem& files = real_file_system();
  if (files.exists(paths.events())) {
    auto earlier = read_events(files, paths.events());
    if (!earlier.ok()) {
      return earlier.error().wrap(Code::record_failed, "the records of the earlier attempt cannot be read");
    }
    for (const auto& event : earlier->records) {
      writer.attempt_ = std::max(writer.attempt_, event.attempt + 1);
    }
  }
  for (const auto& [file, path] : {std::pair(&writer.events_, paths.events()), std::pair(&writer.metrics_, paths.metrics())}) {
    const auto separator = append_separator(files, path);
    if (!separator.ok()) {
      return separator.error().wrap(Code::record_failed, "the records of the run cannot be opened");
    }
    file->reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file->valid()) {
      return io_error("open", path, errno).wrap(Code::record_failed, "the records of the run cannot be opened");
    }
    if (!separator->empty()) {
      writer.append(*file, path, separator->substr(1));
    }
  }
  PS_TRY(writer.status_);
  return writer;
}

void RecordWriter::append(UniqueFd& file, const std::string& path, std::string line) {
  if (!status_.ok()) {
    return;
  }
  line += '\n';
  const ssize_t put = write(file.get(), line.data(), line.size());
  if (put < 0 || static_cast<std::size_t>(put) != line.size()) {
    status_ = io_error("append to", path, put < 0 ? errno : ENOSPC)
                  .wrap(Code::record_failed, fmt::format("a record cannot be written to `{}`", path))
                  .help("free space on the disk and start again with `--resume auto`");
  }
}

void RecordWriter::on_event(const EventRecord& event) {
  append(events_, paths_.events(), event.to_line());
  for (EventSink* sink : sinks_) {
    sink->on_event(event);
  }
}

void RecordWriter::on_metrics(const MetricsRecord& metrics) {
  append(metrics_, paths_.metrics(), metrics.to_line());
  for (EventSink* sink : sinks_) {
    sink->on_metrics(metrics);
  }
}

void RecordWriter::event(std::string_view name, Json details, std::optional<Step> step, std::optional<Rank> rank) {
  on_event({.name = std::string(name),
            .monotonic_ns = real_clock().monotonic_ns(),
            .wall_ns = real_clock().wall_ns(),
            .attempt = attempt_,
            .rank = rank,
            .step = step,
            .details = std::move(details)});
}

}  // namespace parascale::run
