// RunOnEveryThread reaches every thread: running threads, threads that block all signals, and
// threads that start and end meanwhile.
#include "process/every_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "test.h"

namespace svc::process {
namespace {

int ForbidNewPrivileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno; }

struct Count {
  int all = 0;
  int without = 0;
};

// Counts this process's threads, and those without no_new_privs.
Count ThreadsWithoutTheFlag() {
  Count count;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("NoNewPrivs:")) continue;
      ++count.all;
      if (line.back() != '1') ++count.without;
    }
  }
  return count;
}

// The order of the tests matters: what a test sets is never unset.
TEST(EveryThreadRunsTheFunctionWhateverItDoes) {
  constexpr int kIdle = 6;
  constexpr int kParents = 4;
  const bool was_set = ThreadsWithoutTheFlag().without == 0;
  std::atomic<bool> stop{false};
  std::atomic<int> born{0};
  std::vector<std::thread> threads;
  threads.reserve(kIdle + kParents);
  for (int i = 0; i < kIdle; ++i) {
    threads.emplace_back([&stop, i] {
      sigset_t all;
      sigfillset(&all);
      if (i % 2 == 0) pthread_sigmask(SIG_SETMASK, &all, nullptr);
      while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  }
  for (int i = 0; i < kParents; ++i) {
    threads.emplace_back([&stop, &born] {
      while (!stop) std::thread([&born] { ++born; }).join();
    });
  }
  while (born < 100) std::this_thread::yield();
  // A container may have set the flag for all its processes.
  if (!was_set) EXPECT(ThreadsWithoutTheFlag().without > kIdle);

  EXPECT_EQ(RunOnEveryThread([](void*) { return ForbidNewPrivileges(); }, nullptr), 0);
  const int before = born;
  while (born < before + 100) std::this_thread::yield();
  const Count count = ThreadsWithoutTheFlag();
  EXPECT(count.all > kIdle + kParents);
  EXPECT_EQ(count.without, 0);

  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(TheFirstErrorOfAnyThreadIsReturned) {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  std::atomic<int> runs{0};
  const int error = RunOnEveryThread(
      [](void* argument) { return ++*static_cast<std::atomic<int>*>(argument) == 1 ? EIO : 0; },
      &runs);
  EXPECT_EQ(error, EIO);
  EXPECT_EQ(runs, 2);
  stop = true;
  other.join();
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
