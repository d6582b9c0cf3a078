// The seccomp filter in a child process: calls that it refuses, and similar ones that an engine
// needs.
#include "process/seccomp_filter.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "child_process.h"
#include "test.h"

namespace svc::process {
namespace {

int ErrorOf(long result) { return result < 0 ? errno : 0; }

// Calls `body` in a child process that has installed the filter.
template <typename Body>
void ExpectFiltered(Body body) {
  const std::string end = test::EndOfChild([&] {
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    const int error = InstallFilter();
    if (error == ENOTSUP || error == ENOSYS) {
      std::printf("     this system has no seccomp filters\n");
      return;
    }
    REQUIRE(error == 0);
    body();
  });
  EXPECT_EQ(end, "");
}

TEST(SocketsAndProgramsAreRefused) {
  ExpectFiltered([] {
    EXPECT_EQ(ErrorOf(socket(AF_UNIX, SOCK_STREAM, 0)), EPERM);
    int pair[2];
    EXPECT_EQ(ErrorOf(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)), EPERM);
    char* const none[] = {nullptr};
    EXPECT_EQ(ErrorOf(execve("/nonexistent", none, none)), EPERM);
    EXPECT_EQ(ErrorOf(unshare(0)), EPERM);
  });
}

TEST(ThreadsCanBeCreatedAndProcessesCannot) {
  ExpectFiltered([] {
    std::atomic<bool> has_run = false;
    std::thread([&] { has_run = true; }).join();
    EXPECT(has_run);
    EXPECT_EQ(ErrorOf(fork()), EPERM);
    EXPECT_EQ(ErrorOf(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)), EPERM);
    // The kernel's own answer would be EINVAL.
    constexpr long kThread = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    EXPECT_EQ(
        ErrorOf(syscall(SYS_clone, kThread | CLONE_NEWUSER, nullptr, nullptr, nullptr, nullptr)),
        EPERM);
    EXPECT_EQ(ErrorOf(syscall(435 /* clone3 */, nullptr, 0)), ENOSYS);
  });
}

TEST(OnlyThisProcessIsReached) {
  ExpectFiltered([] {
    const pid_t parent = getppid();
    EXPECT_EQ(ErrorOf(kill(getpid(), 0)), 0);
    EXPECT_EQ(ErrorOf(kill(parent, 0)), EPERM);
    EXPECT_EQ(ErrorOf(syscall(SYS_tgkill, getpid(), getpid(), 0)), 0);
    EXPECT_EQ(ErrorOf(syscall(SYS_tgkill, parent, parent, 0)), EPERM);
    EXPECT_EQ(ErrorOf(syscall(424 /* pidfd_send_signal */, -1, 0, nullptr, 0)), EPERM);
    rlimit limit{};
    EXPECT_EQ(ErrorOf(prlimit(0, RLIMIT_NOFILE, nullptr, &limit)), 0);
    EXPECT_EQ(ErrorOf(prlimit(getpid(), RLIMIT_NOFILE, nullptr, &limit)), 0);
    EXPECT_EQ(ErrorOf(prlimit(parent, RLIMIT_NOFILE, nullptr, &limit)), EPERM);
  });
}

TEST(SomeCallsAreRefusedForOneOfTheirArguments) {
  ExpectFiltered([] {
    EXPECT_EQ(ErrorOf(fcntl(STDERR_FILENO, F_GETFD)), 0);
    for (const int command : {F_SETOWN, F_SETSIG}) {
      EXPECT_EQ(ErrorOf(fcntl(STDERR_FILENO, command, 0)), EPERM);
    }
    int files[2];
    REQUIRE(pipe(files) == 0);
    int unread = 1;
    EXPECT_EQ(ErrorOf(ioctl(files[0], FIONREAD, &unread)), 0);
    EXPECT_EQ(unread, 0);
    char typed = 'x';
    EXPECT_EQ(ErrorOf(ioctl(files[0], TIOCSTI, &typed)), EPERM);
    EXPECT_EQ(ErrorOf(prctl(PR_SET_NAME, "svc", 0, 0, 0)), 0);
    EXPECT_EQ(ErrorOf(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)), EPERM);
  });
}

TEST(ThreadsThatRanBeforeAreFilteredToo) {
  std::atomic<int> error = -1;
  const std::string end = test::EndOfChild([&] {
    std::atomic<bool> is_filtered = false;
    std::thread other([&] {
      while (!is_filtered) std::this_thread::yield();
      error = ErrorOf(socket(AF_UNIX, SOCK_STREAM, 0));
    });
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    const int refused = InstallFilter();
    is_filtered = true;
    other.join();
    if (refused == 0) EXPECT_EQ(error, EPERM);
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
