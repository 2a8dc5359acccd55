// Reads affinity, cgroup (v1 and v2) limits and /proc.
#include "zp/base/host_info.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace zp {
namespace {

std::optional<std::string> read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (file >> word) return word;
  return std::nullopt;
}

std::optional<size_t> read_size(const std::string& path) {
  const std::optional<std::string> word = read_word(path);
  if (!word || word->find_first_not_of("0123456789") != std::string::npos || word->size() > 19) return std::nullopt;
  return static_cast<size_t>(std::stoull(*word));
}

// "/proc/meminfo" lines are "Name:   value kB".
size_t meminfo_bytes(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  size_t value_kib = 0;
  std::string unit;
  while (file >> key >> value_kib && std::getline(file, unit)) {
    if (key == name + ":") return value_kib * 1024;
  }
  return 0;
}

// The CPU quota of the container in cores, if one is set.
std::optional<double> cpu_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  const auto v1_quota = read_size("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto v1_period = read_size("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota && v1_period && *v1_period > 0) return static_cast<double>(*v1_quota) / static_cast<double>(*v1_period);
  return std::nullopt;
}

}  // namespace

int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int32_t cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  if (const auto quota = cpu_quota()) cores = std::min(cores, static_cast<int32_t>(std::ceil(*quota)));
  return std::max(cores, 1);
}

HostMemory host_memory() {
  HostMemory memory{meminfo_bytes("MemTotal"), meminfo_bytes("MemAvailable")};
  const struct {
    const char* limit;
    const char* usage;
  } groups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
  };
  for (const auto& group : groups) {
    const auto limit = read_size(group.limit);
    if (!limit || *limit >= memory.limit_bytes) continue;
    memory.limit_bytes = *limit;
    const size_t used = read_size(group.usage).value_or(0);
    memory.available_bytes = std::min(memory.available_bytes, *limit > used ? *limit - used : 0);
  }
  return memory;
}

size_t peak_resident_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace zp
