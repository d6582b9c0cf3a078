// CloseInheritedFiles, in a child process with descriptors of each kind.
#include "process/inherited_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "child_process.h"
#include "test.h"

namespace svc::process {
namespace {

bool IsOpen(int file) { return fcntl(file, F_GETFD) >= 0; }

TEST(OnlyDescriptorsAboveTheLastThatExecWouldKeepAreClosed) {
  const std::string end = test::EndOfChild([] {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int last = fcntl(file, F_DUPFD, 20);
    const int next = fcntl(file, F_DUPFD, last + 1);
    const int far = fcntl(file, F_DUPFD, 300);
    const int own = fcntl(file, F_DUPFD_CLOEXEC, 300);
    REQUIRE(file >= 0 && last >= 20 && next > last && far >= 300 && own > far);
    CloseInheritedFiles(last);
    EXPECT(!IsOpen(next) && !IsOpen(far));
    EXPECT(IsOpen(last) && IsOpen(own) && IsOpen(file));
    EXPECT(IsOpen(STDOUT_FILENO) && IsOpen(STDERR_FILENO));
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
