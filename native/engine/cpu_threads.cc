#include "engine/cpu_threads.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>
#include <string>

#if defined(__linux__)
#include <sched.h>
#else
#include "common.h"
#endif

namespace svc {
namespace {

constexpr std::uint64_t kBytesWorthAThread = 16U << 20U;

}  // namespace

#if defined(__linux__)
namespace {

// Physical cores in the affinity mask; 0 if the kernel does not tell.
int AllowedCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    // Without a topology every processor counts as a core.
    cores.insert(std::getline(file, siblings) ? siblings : "cpu" + std::to_string(cpu));
  }
  return static_cast<int>(cores.size());
}

// Processors' worth of time that the control group (version 2) may use; 0: no limit.
int QuotaCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(std::atof(quota.c_str()) / period)));
}

}  // namespace

int DefaultThreads() {
  const int cores = std::max(1, AllowedCores());
  const int quota = QuotaCores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

#else

int DefaultThreads() { return std::max(1, static_cast<int>(common_cpu_get_num_math())); }

#endif

int DefaultThreads(std::uint64_t model_bytes) {
  const std::uint64_t worth = std::max<std::uint64_t>(1, model_bytes / kBytesWorthAThread);
  return static_cast<int>(std::min<std::uint64_t>(DefaultThreads(), worth));
}

double ProcessCpuMs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace svc
