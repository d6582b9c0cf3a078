#include "process/trials.h"

#ifdef __linux__
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#endif

namespace svc::process {

#ifdef __linux__

namespace {

constexpr int kNoFile = -1;

bool HoldsCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, held) != 0) return true;
  return (held[0].permitted | held[0].inheritable | held[1].permitted | held[1].inheritable) != 0;
}

bool MayWriteCore() {
  rlimit limit{};
  return getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_max != 0;
}

// Result of a call that finds out, and cannot be refused.
long Found(bool is_possible) {
  errno = EPERM;
  return is_possible ? 0 : -1;
}

struct Attempt {
  const char* what;
  // Returns a negative number and sets errno if the call failed.
  long (*make)(int parent);
};

const Attempt kAttempts[] = {
    {"to change the mode of a file", [](int) { return syscall(SYS_fchmod, kNoFile, 0); }},
    {"to change the owner of a file", [](int) { return syscall(SYS_fchown, kNoFile, -1, -1); }},
    {"to change the times of a file by its path",
     [](int) { return syscall(SYS_utimensat, AT_FDCWD, "", nullptr, 0); }},
    {"to change an attribute of a file",
     [](int) { return syscall(SYS_fsetxattr, kNoFile, "user.svc", "", 0, 0); }},
    {"to change the flags of a file",
     [](int) -> long { return ioctl(kNoFile, FS_IOC_SETFLAGS, nullptr); }},
    {"to truncate a file by its path", [](int) { return syscall(SYS_truncate, "", 0); }},
    {"to watch files", [](int) { return syscall(SYS_inotify_add_watch, kNoFile, "", 0); }},
    {"to make a socket", [](int) { return syscall(SYS_socket, -1, 0, 0); }},
    {"to send through a socket", [](int) { return syscall(SYS_sendmsg, kNoFile, nullptr, 0); }},
    {"to make a process",
     [](int) { return syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0); }},
    {"to trace another process",
     [](int parent) { return syscall(SYS_ptrace, PTRACE_DETACH, parent, 0, 0); }},
    {"to read the memory of another process",
     [](int parent) { return syscall(SYS_process_vm_readv, parent, nullptr, 0, nullptr, 0, 0); }},
    {"to signal a thread of another process",
     [](int parent) { return syscall(SYS_tgkill, parent, parent, 0); }},
    {"to queue a signal",
     [](int parent) { return syscall(SYS_rt_sigqueueinfo, parent, 0, nullptr); }},
    {"to open another process",
     [](int parent) { return syscall(434 /* pidfd_open */, parent, 0); }},
    {"to have another process signalled",
     [](int parent) -> long { return fcntl(kNoFile, F_SETOWN, parent); }},
    {"to read the limits of another process",
     [](int parent) { return syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, nullptr, nullptr); }},
    {"to change a priority", [](int parent) { return syscall(SYS_setpriority, -1, parent, 0); }},
    {"to type into a terminal", [](int) -> long { return ioctl(kNoFile, TIOCSTI, ""); }},
    {"to use System V memory", [](int) { return syscall(SYS_shmget, IPC_PRIVATE, 0, 0); }},
    {"to use keyctl", [](int) { return syscall(SYS_keyctl, -1); }},
    {"to use io_uring", [](int) { return syscall(425 /* io_uring_setup */, 0, nullptr); }},
    {"to use bpf", [](int) { return syscall(SYS_bpf, -1, nullptr, 0); }},
    {"to use perf_event_open",
     [](int) { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
    {"to use userfaultfd", [](int) { return syscall(SYS_userfaultfd, -1); }},
    {"to leave a namespace", [](int) { return syscall(SYS_unshare, 0); }},
    {"to mount", [](int) { return syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr); }},
    {"to be dumpable", [](int) -> long { return prctl(PR_SET_DUMPABLE, -1, 0, 0, 0); }},
    {"to be read by another process of this user",
     [](int) { return Found(prctl(PR_GET_DUMPABLE) != 0); }},
    {"to write a core file", [](int) { return Found(MayWriteCore()); }},
    {"to use capabilities", [](int) { return Found(HoldsCapabilities()); }},
    {"to gain privileges", [](int) { return Found(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1); }},
};

}  // namespace

std::vector<Trial> MakeTrials(int parent) {
  std::vector<Trial> trials;
  for (const auto& [what, make] : kAttempts) {
    const int error = make(parent) < 0 ? errno : 0;
    // Any other error is the answer to a call that was carried out.
    const bool is_refused = error == EPERM || error == EACCES || error == ENOSYS;
    trials.push_back({what, is_refused ? error : 0});
  }
  return trials;
}

#else

std::vector<Trial> MakeTrials(int /*parent*/) { return {}; }

#endif

}  // namespace svc::process
