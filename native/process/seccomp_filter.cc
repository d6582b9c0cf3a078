#include "process/seccomp_filter.h"

#include <cerrno>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define SVC_SECCOMP
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#else
// Nothing is done with its values.
struct sock_filter {};
#endif

namespace svc::process {

#ifdef SVC_SECCOMP

namespace {

#ifdef __x86_64__
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
// Newest call that this list considers: file_setattr, Linux 6.17. Numbers from 424 on are the same
// on every architecture.
constexpr std::uint32_t kNewestCall = 469;

// Calls refused with any arguments.
constexpr std::uint32_t kRefused[] = {
    // Sockets. The pipe to the daemon is read and written as a file.
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    // Other programs. Filter() checks clone.
    SYS_execve,
    SYS_execveat,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    // Other processes. Filter() checks kill and similar calls.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_tkill,
    424 /* pidfd_send_signal */,
    434 /* pidfd_open */,
    438 /* pidfd_getfd */,
    440 /* process_madvise */,
    448 /* process_mrelease */,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    // Shared memory, semaphores and message queues, which other programs of the user reach by name.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semctl,
    SYS_semop,
    SYS_semtimedop,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    // File attributes, which Landlock does not restrict; watching files of other processes.
    // Filter() checks utimensat and ioctl.
    SYS_fchmod,
    SYS_fchmodat,
    452 /* fchmodat2 */,
    SYS_fchown,
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    463 /* setxattrat */,
    464 /* getxattrat */,
    465 /* listxattrat */,
    466 /* removexattrat */,
    469 /* file_setattr */,
    SYS_truncate,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
#ifdef __x86_64__
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_inotify_init,
#endif
    // Mounts and namespaces.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    457 /* statmount */,
    458 /* listmount */,
    467 /* open_tree_attr */,
    SYS_quotactl,
    443 /* quotactl_fd */,
    // Parts of the kernel with a history of vulnerabilities.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    // Administration of the machine.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_vhangup,
    SYS_personality,
#ifdef __x86_64__
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

constexpr std::uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// ioctls have a byte for what they belong to. Those of file systems set attributes; those of
// sockets signal other processes (FIOSETOWN).
constexpr std::uint32_t kIoctlGroup = 0xff00;
constexpr std::initializer_list<std::uint32_t> kRefusedIoctlGroups = {
    'f' << 8U, 'X' << 8U, 'v' << 8U, 0x94 << 8U /* btrfs */, 0x89 << 8U /* sockets */};

constexpr std::uint32_t Fail(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA);
}

// A BPF program over the call's number and arguments. Only the lower 32 bits of a number are
// compared, because the kernel takes these arguments as int.
class Program {
 public:
  Program() {
    Load(offsetof(seccomp_data, arch));
    Add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    Return(Fail(ENOSYS));
    Load(offsetof(seccomp_data, nr));
    // Also refuses x32 calls, whose numbers are higher.
    Add(BPF_JMP | BPF_JGT | BPF_K, kNewestCall, 0, 1);
    Return(Fail(ENOSYS));
  }

  void Refuse(std::uint32_t call, int error) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    Return(Fail(error));
  }

  // Refuses the call unless the argument is one of `allowed`.
  void AllowOnly(std::uint32_t call, int argument, std::initializer_list<std::uint32_t> allowed) {
    const auto count = static_cast<std::uint8_t>(allowed.size());
    Add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, count + 3);
    Load(Argument(argument));
    for (std::uint8_t left = count; const std::uint32_t value : allowed) {
      Add(BPF_JMP | BPF_JEQ | BPF_K, value, left--, 0);
    }
    Return(Fail(EPERM));
    Return(SECCOMP_RET_ALLOW);
  }

  // Refuses the call if the bits of the argument that are in `mask` are one of `refused`.
  void RefuseOnly(std::uint32_t call, int argument, std::uint32_t mask,
                  std::initializer_list<std::uint32_t> refused) {
    const auto count = static_cast<std::uint8_t>(refused.size());
    Add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, count + 5);
    Load(Argument(argument));
    Add(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    for (std::uint8_t skipped = count + 1; const std::uint32_t value : refused) {
      Add(BPF_JMP | BPF_JEQ | BPF_K, value, skipped--, 0);
    }
    Load(offsetof(seccomp_data, nr));
    Add(BPF_JMP | BPF_JA, 1, 0, 0);
    Return(Fail(EPERM));
  }

  // Refuses the call unless the argument, a pointer, is null.
  void AllowOnlyNull(std::uint32_t call, int argument) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 6);
    Load(Argument(argument));
    Add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    Load(Argument(argument) + sizeof(std::uint32_t));
    Add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    Return(SECCOMP_RET_ALLOW);
    Return(Fail(EPERM));
  }

  // Allows the call only to create a thread of this process in the same namespaces.
  void AllowThreadsOnly(std::uint32_t call) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    Load(Argument(0));
    Add(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 2);
    Add(BPF_JMP | BPF_JSET | BPF_K, kNewNamespaces, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    Return(Fail(EPERM));
  }

  std::vector<sock_filter> End() {
    Return(SECCOMP_RET_ALLOW);
    return code_;
  }

 private:
  static std::uint32_t Argument(int index) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + sizeof(std::uint64_t) * index);
  }

  void Load(std::size_t offset) {
    Add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset), 0, 0);
  }
  void Return(std::uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }
  // `yes` and `no`: instructions to skip if the comparison is true or false.
  void Add(std::uint16_t code, std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    code_.push_back({code, yes, no, value});
  }

  std::vector<sock_filter> code_;
};

}  // namespace

std::vector<sock_filter> Filter() {
  const auto self = static_cast<std::uint32_t>(getpid());
  Program program;
  for (const std::uint32_t call : kRefused) program.Refuse(call, EPERM);
  // The filter cannot read clone3's flags, which are behind a pointer. On ENOSYS glibc uses clone.
  program.Refuse(435 /* clone3 */, ENOSYS);
  program.AllowThreadsOnly(SYS_clone);
  // Signals only to this process: abort() needs them.
  program.AllowOnly(SYS_kill, 0, {self});
  program.AllowOnly(SYS_tgkill, 0, {self});
  program.AllowOnly(SYS_rt_sigqueueinfo, 0, {self});
  program.AllowOnly(SYS_rt_tgsigqueueinfo, 0, {self});
  program.AllowOnly(SYS_prlimit64, 0, {0, self});
  // Times of open files only: a path could name any file of the user.
  program.AllowOnlyNull(SYS_utimensat, 1);
  // F_SETOWN and F_SETSIG can signal other processes, F_SETLEASE can delay them, F_NOTIFY can
  // watch them.
  program.RefuseOnly(SYS_fcntl, 1, ~0U, {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY});
  // These type into a terminal.
  program.RefuseOnly(SYS_ioctl, 1, ~0U, {TIOCSTI, TIOCLINUX});
  program.RefuseOnly(SYS_ioctl, 1, kIoctlGroup, kRefusedIoctlGroups);
  // These would let other processes read this one's memory.
  program.RefuseOnly(SYS_prctl, 0, ~0U, {PR_SET_DUMPABLE, PR_SET_PTRACER});
  return program.End();
}

int InstallFilter() {
  std::vector<sock_filter> code = Filter();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  // SPEC_ALLOW: without it, kernels before 5.16 disable speculative store bypass for filtered
  // threads, which slows them down; newer kernels do not.
  const long unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (result == 0) return 0;
  // A positive result is the id of a thread that could not take over the filter.
  return result > 0 ? EAGAIN : errno;
}

#else

std::vector<sock_filter> Filter() { return {}; }

int InstallFilter() { return ENOTSUP; }

#endif

}  // namespace svc::process
