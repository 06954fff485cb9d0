#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace parascale {

/// Lines with time and level in one file, for the logs of a run (`logs/agent.log`, `logs/engine.log`).
/// An error that is returned is not logged as well. *thread-safe*
class Log {
 public:
  /// Appends to `path`; a file that cannot be opened makes a log that drops its lines.
  explicit Log(const std::string& path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(std::string_view line);
  void warn(std::string_view line);
  void error(std::string_view line);

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace parascale
