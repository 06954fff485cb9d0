#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "parascale/base/file_system.h"
#include "parascale/base/text.h"
#include "parascale/plan/planner.h"

namespace parascale::plan {

namespace {

std::string first_line(const std::string& path) {
  const auto content = read_small_file(path);
  return content.empty() ? std::string() : std::string(trim(split(content, '\n').front()));
}

/// Cores by affinity, then by the cgroup's CPU quota (v2 `cpu.max`, v1 `cfs_quota_us`).
std::uint32_t read_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const auto quota_of = [&](const std::string& quota, const std::string& period) {
    const auto q = parse_double(quota);
    const auto p = parse_double(period);
    if (q && p && *q > 0 && *p > 0) {
      cores = std::min(cores, *q / *p);
    }
  };
  if (const auto parts = split(first_line("/sys/fs/cgroup/cpu.max"), ' '); parts.size() == 2) {
    quota_of(parts[0], parts[1]);
  }
  quota_of(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  return static_cast<std::uint32_t>(std::max(1.0, std::floor(cores)));
}

std::uint64_t read_memory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const auto limit = parse_uint64(first_line(path))) {
      bytes = std::min(bytes, *limit);
    }
  }
  return bytes;
}

/// Reads `__version__ = '2.13.0+cpu'` from the wheel: no interpreter, no library is loaded.
std::string read_torch_version(const std::string& version_file) {
  for (const auto& line : split(read_small_file(version_file), '\n')) {
    if (line.starts_with("__version__")) {
      const auto begin = line.find_first_of("'\"");
      const auto end = line.find_last_of("'\"");
      if (begin != std::string::npos && end > begin) {
        return line.substr(begin + 1, end - begin - 1);
      }
    }
  }
  return {};
}

}  // namespace

Machine read_machine(const std::string& torch_version_file) {
  utsname platform{};
  uname(&platform);
  std::string host_class =
      fmt::format("{}-{}", static_cast<const char*>(platform.sysname), static_cast<const char*>(platform.machine));
  std::ranges::transform(host_class, host_class.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return Machine{.host_class = std::move(host_class),
                 .cores = read_cores(),
                 .memory_bytes = read_memory(),
                 .devices = {"cpu"},
                 .torch_version = read_torch_version(torch_version_file)};
}

Status check_fit(const RuntimePlan& plan, const Machine& machine) {
  Error error(Code::plan_misfit, "the plan was made for another machine");
  const MadeFor& made = plan.made_for;
  if (made.host_class != machine.host_class) {
    error.note(fmt::format("host class: plan {}, here {}", made.host_class, machine.host_class));
  }
  if (made.cores > machine.cores) {
    error.note(fmt::format("cores: plan {}, here {}", made.cores, machine.cores));
  }
  // A few per cent of difference in memory are the kernel's own reservations.
  if (static_cast<double>(made.memory_bytes) * 0.95 > static_cast<double>(machine.memory_bytes)) {
    error.note(fmt::format("memory: plan {}, here {}", format_bytes(made.memory_bytes), format_bytes(machine.memory_bytes)));
  }
  for (const auto& device : made.devices) {
    if (std::ranges::find(machine.devices, device) == machine.devices.end()) {
      error.note(fmt::format("device: `{}` is not here", device));
    }
  }
  if (!made.torch_version.empty() && !machine.torch_version.empty() && made.torch_version != machine.torch_version) {
    error.note(fmt::format("torch: plan {}, here {}", made.torch_version, machine.torch_version));
  }
  if (error.notes().empty()) {
    return {};
  }
  return std::move(error).help("run `parascale plan` with the config on this machine");
}

}  // namespace parascale::plan
