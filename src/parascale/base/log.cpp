#include "parascale/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

namespace parascale {

struct Log::Sink {
  std::shared_ptr<spdlog::logger> logger;
};

Log::Log(const std::string& path) : sink_(std::make_unique<Sink>()) {
  try {
    sink_->logger = std::make_shared<spdlog::logger>("parascale", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    sink_->logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    sink_->logger->flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex&) {
    sink_->logger = nullptr;  // a run must not die for its log
  }
}

Log::~Log() = default;

void Log::info(std::string_view line) {
  if (sink_->logger) {
    sink_->logger->info("{}", line);
  }
}
void Log::warn(std::string_view line) {
  if (sink_->logger) {
    sink_->logger->warn("{}", line);
  }
}
void Log::error(std::string_view line) {
  if (sink_->logger) {
    sink_->logger->error("{}", line);
  }
}

}  // namespace parascale
