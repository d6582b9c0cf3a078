// The whole sandbox in a child process: what its report says is in force on every thread.
#include "process/sandbox.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "child_process.h"
#include "test.h"

namespace svc::process {
namespace {

// Returns the values of a line of /proc/self/task/*/status, one of each thread.
std::multiset<std::string> StatusOfThreads(const std::string& name) {
  std::multiset<std::string> values;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(name + ":\t")) values.insert(line.substr(name.size() + 2));
    }
  }
  return values;
}

// The capabilities of a root process that are kept until LeaveLastCapability: CAP_DAC_READ_SEARCH.
constexpr const char* kReadSearch = "0000000000000004";
constexpr const char* kNone = "0000000000000000";

TEST(WhatIsReportedIsInForceOnEveryThread) {
  const std::string end = test::EndOfChild([] {
    std::atomic<bool> stop = false;
    std::thread other([&] {
      while (!stop) std::this_thread::yield();
    });
    const auto is_on_all = [](const std::string& name, const std::string& value) {
      const std::multiset<std::string> values = StatusOfThreads(name);
      return values.size() == 2 && values.count(value) == 2;
    };
    const std::multiset<std::string> held = StatusOfThreads("CapPrm");
    const bool may_read = std::ranges::all_of(
        held, [](const std::string& each) { return (std::stoull(each, nullptr, 16) & 4) != 0; });

    const SandboxReport report = EnterSandbox({.read = {"/proc/self"}});
    EXPECT(report.no_new_privileges == 0 && report.capabilities == 0);
    EXPECT(is_on_all("NoNewPrivs", "1"));
    EXPECT(is_on_all("CapEff", may_read ? kReadSearch : kNone));
    EXPECT(is_on_all("CapInh", kNone) && is_on_all("CapAmb", kNone));
    EXPECT_EQ(report.landlock_version, LandlockVersion());
    EXPECT_EQ(report.landlock == 0, report.landlock_version > 0);
    if (report.landlock == 0) EXPECT(open("/", O_RDONLY) < 0 && errno == EACCES);
    if (report.seccomp == 0) EXPECT(is_on_all("Seccomp", "2"));

    EXPECT_EQ(LeaveLastCapability(), 0);
    EXPECT(is_on_all("CapEff", kNone) && is_on_all("CapPrm", kNone));
    stop = true;
    other.join();
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
