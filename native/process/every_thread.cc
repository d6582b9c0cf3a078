#include "process/every_thread.h"

#include <cerrno>

#ifdef __linux__
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>
#endif

namespace svc::process {

#ifdef __linux__

namespace {

// SIGSETXID of glibc, SIGCANCEL of musl.
constexpr int kSignal = 33;
constexpr std::chrono::seconds kPatience(5);
constexpr std::chrono::microseconds kPoll(20);

// The kernel's sigaction structure; libc's sigaction() rejects the signal.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void* restorer;
  std::uint64_t mask;
};

struct Job {
  int (*function)(void*);
  void* argument;
  std::atomic<int> error{0};
};

std::atomic<Job*> current{nullptr};
std::atomic<int> runs{0};

void OnSignal(int /*signal*/) {
  const int saved = errno;
  if (Job* job = current.load(); job != nullptr) {
    const int error = job->function(job->argument);
    int none = 0;
    if (error != 0) job->error.compare_exchange_strong(none, error);
    ++runs;
  }
  errno = saved;
}

// Installs OnSignal for kSignal; `old` receives the previous action. Only libc knows how a handler
// returns (`restorer`): the action is first installed with libc for another signal and read back.
bool InstallHandler(KernelAction* old) {
  struct sigaction before {};
  struct sigaction ours {};
  ours.sa_handler = OnSignal;
  ours.sa_flags = SA_RESTART;
  sigfillset(&ours.sa_mask);
  if (sigaction(SIGRTMAX, &ours, &before) != 0) return false;
  KernelAction action{};
  const bool is_read =
      syscall(SYS_rt_sigaction, SIGRTMAX, nullptr, &action, sizeof(action.mask)) == 0;
  sigaction(SIGRTMAX, &before, nullptr);
  return is_read && syscall(SYS_rt_sigaction, kSignal, &action, old, sizeof(action.mask)) == 0;
}

std::vector<pid_t> Threads() {
  std::vector<pid_t> threads;
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return threads;
  while (const dirent* entry = readdir(folder)) {
    if (const pid_t thread = std::atoi(entry->d_name); thread > 0) threads.push_back(thread);
  }
  closedir(folder);
  return threads;
}

// Returns true once `thread` has run the job or has ended, false if it does neither within
// kPatience.
bool RunOn(pid_t thread) {
  const int before = runs;
  if (syscall(SYS_tgkill, getpid(), thread, kSignal) != 0) return errno == ESRCH;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (runs == before) {
    const bool has_ended = syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
    if (has_ended) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

bool RunOnOthers() {
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  std::set<pid_t> done{self};
  for (bool is_complete = false; !is_complete;) {
    is_complete = true;
    const std::vector<pid_t> threads = Threads();
    if (threads.empty()) return false;
    for (const pid_t thread : threads) {
      if (!done.insert(thread).second) continue;
      is_complete = false;
      if (!RunOn(thread)) return false;
    }
  }
  return true;
}

}  // namespace

int RunOnEveryThread(int (*function)(void* argument), void* argument) {
  // Static: a thread that reacts after the timeout still reads it.
  static Job job;
  job.function = function;
  job.argument = argument;
  job.error = 0;
  KernelAction before{};
  current = &job;
  if (!InstallHandler(&before)) return errno;
  const bool all = RunOnOthers();
  // On a timeout the handler stays: without it a late signal would end the process.
  if (all) {
    syscall(SYS_rt_sigaction, kSignal, &before, nullptr, sizeof(before.mask));
    current = nullptr;
  }
  const int own = function(argument);
  if (!all) return EAGAIN;
  return job.error != 0 ? job.error.load() : own;
}

#else

int RunOnEveryThread(int (* /*function*/)(void* argument), void* /*argument*/) { return ENOTSUP; }

#endif

}  // namespace svc::process
