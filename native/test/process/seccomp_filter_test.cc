// The seccomp filter in a child process: calls that it refuses, and similar ones that an engine
// needs.
#include "process/seccomp_filter.h"

#include <asm/sockios.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
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
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

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

// Runs the filter over a call as the kernel would, also where it cannot be installed (under an
// emulator). Returns the errno; 0: allowed.
int Decision(const seccomp_data& call) {
  const std::vector<sock_filter> program = Filter();
  std::uint32_t value = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const auto& [code, yes, no, operand] = program[at];
    switch (code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&value, reinterpret_cast<const char*>(&call) + operand, sizeof value);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        value &= operand;
        break;
      case BPF_JMP | BPF_JA:
        at += operand;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += value == operand ? yes : no;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += value > operand ? yes : no;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (value & operand) != 0 ? yes : no;
        break;
      case BPF_RET | BPF_K:
        return operand == SECCOMP_RET_ALLOW ? 0 : static_cast<int>(operand & SECCOMP_RET_DATA);
      default:
        return -1;
    }
  }
  return -1;
}

#ifdef __x86_64__
constexpr std::uint32_t kThisArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kThisArchitecture = AUDIT_ARCH_AARCH64;
#endif

seccomp_data Call(long number, std::uint64_t first = 0, std::uint64_t second = 0) {
  return {.nr = static_cast<int>(number), .arch = kThisArchitecture, .args = {first, second}};
}

TEST(TheListIsOfThisArchitecture) {
  if (Filter().empty()) return;
  for (const long allowed : {SYS_read, SYS_openat, SYS_mmap, SYS_futex, SYS_exit_group}) {
    EXPECT_EQ(Decision(Call(allowed)), 0);
  }
  for (const long refused : {SYS_socket, SYS_execve, SYS_ptrace, SYS_fchmodat, SYS_getxattr,
                             SYS_truncate, SYS_mount, SYS_bpf, SYS_kexec_load}) {
    EXPECT_EQ(Decision(Call(refused)), EPERM);
  }
#ifdef SYS_kexec_file_load
  EXPECT_EQ(Decision(Call(SYS_kexec_file_load)), EPERM);
#endif
  EXPECT_EQ(Decision(Call(470 /* after file_setattr */)), ENOSYS);
  EXPECT_EQ(Decision(Call(0x40000000 | SYS_read /* x32 */)), ENOSYS);
  seccomp_data other = Call(SYS_read);
  other.arch = AUDIT_ARCH_I386;
  EXPECT_EQ(Decision(other), ENOSYS);
}

TEST(ArgumentsDecide) {
  if (Filter().empty()) return;
  const auto self = static_cast<std::uint64_t>(getpid());
  EXPECT_EQ(Decision(Call(SYS_kill, self)), 0);
  EXPECT_EQ(Decision(Call(SYS_kill, self + 1)), EPERM);
  EXPECT_EQ(Decision(Call(SYS_utimensat, 5, 0)), 0);
  EXPECT_EQ(Decision(Call(SYS_utimensat, 5, 0x1000)), EPERM);
  EXPECT_EQ(Decision(Call(SYS_utimensat, 5, std::uint64_t{1} << 32U)), EPERM);
  for (const std::uint64_t allowed : {FIONREAD, FIONBIO, TCGETS, TIOCGWINSZ}) {
    EXPECT_EQ(Decision(Call(SYS_ioctl, 0, allowed)), 0);
  }
  for (const std::uint64_t refused :
       {std::uint64_t{TIOCSTI}, std::uint64_t{FIOSETOWN}, std::uint64_t{FS_IOC_SETFLAGS},
        std::uint64_t{FS_IOC_FSSETXATTR}}) {
    EXPECT_EQ(Decision(Call(SYS_ioctl, 0, refused)), EPERM);
  }
  // What follows a call whose argument was looked at is still decided by its number.
  EXPECT_EQ(Decision(Call(SYS_prctl, PR_SET_NAME)), 0);
  EXPECT_EQ(Decision(Call(SYS_prctl, PR_SET_PTRACER)), EPERM);
  EXPECT_EQ(Decision(Call(SYS_clone, CLONE_THREAD | CLONE_VM)), 0);
  EXPECT_EQ(Decision(Call(SYS_clone, SIGCHLD)), EPERM);
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
