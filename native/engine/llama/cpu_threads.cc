#include "engine/llama/cpu_threads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "engine/base/performance_cores.h"

#if defined(__linux__)
#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#elif defined(_WIN32)
#include <windows.h>

#include <map>
#else
#include "common.h"
#endif

namespace svc {
namespace {

// Bytes of weights below which one more thread costs more than it gains.
constexpr std::uint64_t kBytesWorthAThread = 16U << 20U;

}  // namespace

#if defined(__linux__)
namespace {

constexpr const char* kProcessors = "/sys/devices/system/cpu";

std::string SiblingsOf(int cpu) {
  std::ifstream file(kProcessors + ("/cpu" + std::to_string(cpu)) +
                     "/topology/thread_siblings_list");
  std::string siblings;
  std::getline(file, siblings);
  return siblings;
}

#if defined(__x86_64__)

// EAX, EBX, ECX and EDX of a leaf; zeros if the processor lacks it.
std::array<unsigned, 4> CpuId(unsigned leaf) {
  std::array<unsigned, 4> all{};
  (void)__get_cpuid_count(leaf, 0, &all[0], &all[1], &all[2], &all[3]);
  return all;
}

bool IsHybrid() {
  constexpr unsigned kHybrid = 1U << 15U;  // EDX
  return (CpuId(7)[3] & kHybrid) != 0;
}

// CPUID describes only the processor it runs on, so this thread moves to the one in question.
bool IsEfficient(int cpu) {
  constexpr unsigned kAtom = 0x20;  // upper byte of EAX
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(cpu, &there);
  if (sched_setaffinity(0, sizeof(there), &there) != 0) return false;
  return CpuId(0x1A)[0] >> 24U == kAtom;
}

// Those of `processors` that belong to efficiency cores. Restores the affinity mask `allowed`.
std::set<int> EfficientOf(const std::vector<int>& processors, const cpu_set_t& allowed) {
  std::set<int> efficient;
  if (!IsHybrid()) return efficient;
  for (const int cpu : processors) {
    if (IsEfficient(cpu)) efficient.insert(cpu);
  }
  sched_setaffinity(0, sizeof(allowed), &allowed);
  return efficient;
}

#else

std::set<int> EfficientOf(const std::vector<int>& processors, const cpu_set_t& /*allowed*/) {
  return SlowProcessors(processors, kProcessors);
}

#endif

// Cores in the affinity mask; 0 if it cannot be read. Restores the mask.
int AllowedCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
  }
  const std::set<int> efficient = EfficientOf(processors, allowed);
  return CountPerformanceCores({.allowed = processors,
                                .core_of = SiblingsOf,
                                .is_efficient = [&](int cpu) { return efficient.contains(cpu); }});
}

// CPU quota of the control group (version 2), in cores, rounded up; 0: no limit.
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

#elif defined(_WIN32)
namespace {

// A logical processor: Windows' SYSTEM_CPU_SET_INFORMATION, which MinGW-w64's headers lack until
// version 12.
struct CpuSet {
  DWORD size;
  DWORD type;
  DWORD id;
  WORD group;
  BYTE processor;
  BYTE core;
  BYTE last_level_cache;
  BYTE numa_node;
  BYTE efficiency_class;  // of a hybrid processor's slowest cores 0, of all others a higher one
  BYTE flags;
  DWORD scheduling_class;
  DWORD64 allocation_tag;
};
static_assert(sizeof(CpuSet) == 32);

// The processors of the first group of 64: a process runs in one group unless it asks for more.
std::map<int, CpuSet> AllProcessors() {
  using Get = BOOL(WINAPI*)(void*, ULONG, ULONG*, HANDLE, ULONG);
  const auto get = reinterpret_cast<Get>(reinterpret_cast<void*>(
      GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "GetSystemCpuSetInformation")));
  std::map<int, CpuSet> found;
  ULONG bytes = 0;
  if (get != nullptr) get(nullptr, 0, &bytes, GetCurrentProcess(), 0);
  std::vector<CpuSet> sets(bytes / sizeof(CpuSet));
  bytes = static_cast<ULONG>(sets.size() * sizeof(CpuSet));
  if (sets.empty() || !get(sets.data(), bytes, &bytes, GetCurrentProcess(), 0)) return found;
  for (const CpuSet& each : sets) {
    if (each.group == 0 && each.size == sizeof(CpuSet)) found[each.processor] = each;
  }
  return found;
}

// Cores in the affinity mask; 0 if it cannot be read.
int AllowedCores() {
  DWORD_PTR allowed = 0;
  DWORD_PTR all = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all)) return 0;
  const std::map<int, CpuSet> known = AllProcessors();
  int fastest = 0;
  for (const auto& [cpu, set] : known) fastest = std::max<int>(fastest, set.efficiency_class);
  Processors processors{
      .allowed = {},
      .core_of =
          [&](int cpu) { return known.contains(cpu) ? std::to_string(known.at(cpu).core) : ""; },
      .is_efficient =
          [&](int cpu) { return known.contains(cpu) && known.at(cpu).efficiency_class < fastest; }};
  for (int cpu = 0; cpu < 64; ++cpu) {
    if ((allowed >> cpu & 1U) != 0) processors.allowed.push_back(cpu);
  }
  return CountPerformanceCores(processors);
}

}  // namespace

int DefaultThreads() { return std::max(1, AllowedCores()); }

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
