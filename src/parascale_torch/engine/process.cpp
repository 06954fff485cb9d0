#include "parascale_torch/engine/process.h"

#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace parascale::native {

namespace {

// Plain atomics, because a signal handler reads them.
std::atomic<std::uint32_t> current_phase{0};
std::atomic<std::uint64_t> current_step{0};
std::atomic<std::uint32_t> current_micro_step{0};

void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_number(std::uint64_t value) {
  std::array<char, 20> digits;
  std::size_t at = digits.size();
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  write_text(std::string_view(digits.data() + at, digits.size() - at));
}

void on_dump_signal(int) {
  const int saved = errno;
  dump_stack();
  errno = saved;
}

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    memory.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  }
  if (std::FILE* statm = std::fopen("/proc/self/statm", "re"); statm != nullptr) {
    unsigned long long total = 0;
    unsigned long long resident = 0;
    if (std::fscanf(statm, "%llu %llu", &total, &resident) == 2) {
      memory.rss_bytes = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    }
    std::fclose(statm);
  }
  return memory;
}

std::int64_t process_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void prepare_process() {
  // Activations come and go every step: without this each large one is mapped, faulted in and unmapped again.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGTERM, &ignore, nullptr);
  sigaction(SIGINT, &ignore, nullptr);
  std::array<void*, 4> frames;
  backtrace(frames.data(), static_cast<int>(frames.size()));  // loads the unwinder now, which the handler could not do safely
  struct sigaction dump{};
  dump.sa_handler = on_dump_signal;
  dump.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &dump, nullptr);
}

bool peer_alive(int control_fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(control_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) {
    return true;  // unknown (another pid namespace): end of file will tell
  }
  return kill(peer.pid, 0) == 0 || errno != ESRCH;
}

void set_location(protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step) {
  current_step.store(step, std::memory_order_relaxed);
  current_micro_step.store(micro_step, std::memory_order_relaxed);
  current_phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
}

Location location() {
  return {.phase = static_cast<protocol::Phase>(current_phase.load(std::memory_order_acquire)),
          .step = current_step.load(std::memory_order_relaxed),
          .micro_step = current_micro_step.load(std::memory_order_relaxed)};
}

void dump_stack() {
  const Location here = location();
  write_text("parascale_worker: phase ");
  write_text(protocol::phase_name(here.phase));
  write_text(", step ");
  write_number(here.step);
  write_text(", micro-step ");
  write_number(here.micro_step);
  write_text("\n");
  std::array<void*, 64> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
}

}  // namespace parascale::native
