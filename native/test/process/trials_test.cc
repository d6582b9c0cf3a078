// Doctor's attempts: refused in the sandbox, and only there.
#include "process/trials.h"

#include <unistd.h>

#include <set>
#include <string>

#include "child_process.h"
#include "process/core_dumps.h"
#include "process/sandbox.h"
#include "test.h"

namespace svc::process {
namespace {

TEST(NoAttemptIsRefusedOutsideTheSandbox) {
  // Refused to some processes by the system, a container or a limit.
  const std::set<std::string> elsewhere = {
      "to use keyctl",       "to use io_uring",      "to use bpf", "to use perf_event_open",
      "to use userfaultfd",  "to leave a namespace", "to mount",   "to write a core file",
      "to use capabilities", "to gain privileges"};
  for (const auto& [what, error] : MakeTrials(getppid())) {
    if (!elsewhere.contains(what) && error != 0) EXPECT_EQ(std::string(what), "refused");
  }
}

TEST(EachAttemptIsRefusedInTheSandbox) {
  const std::string end = test::EndOfChild([] {
    ForbidCoreDumps();
    if (EnterSandbox({}).seccomp != 0) return;
    LeaveLastCapability();
    for (const auto& [what, error] : MakeTrials(getppid())) {
      if (error == 0) EXPECT_EQ(std::string(what), "possible");
    }
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
