// ForbidCoreDumps, in a child process: what it sets cannot be taken back.
#include "process/core_dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "child_process.h"
#include "test.h"

namespace svc::process {
namespace {

TEST(AProcessWritesNoCoreAndIsNotDumpable) {
  const std::string end = test::EndOfChild([] {
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_CORE, &limit) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    ForbidCoreDumps();
    REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
    EXPECT(limit.rlim_cur == 0 && limit.rlim_max == 0);
    EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
