#include "process/sandbox.h"

#include <cerrno>

#ifdef __linux__
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#endif

#include "process/every_thread.h"
#include "process/seccomp_filter.h"

namespace svc::process {

#ifdef __linux__

namespace {

// Both are async-signal-safe and return 0 or an errno. The first sets no_new_privs: exec gives this
// thread, and the threads that it creates, no new privileges.
int ForbidNewPrivileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno; }

// Empties the capability sets: ambient, bounding (where CAP_SETPCAP is held), effective, permitted,
// inheritable. `keep_reading` keeps CAP_DAC_READ_SEARCH if it is held, with which a root process
// opens files of other users.
int DropCapabilities(bool keep_reading) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // Ends with EINVAL after the kernel's last capability, or with EPERM without CAP_SETPCAP, where
  // exec can gain nothing anyway.
  for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0;) ++capability;

  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, held) != 0) return errno;
  const std::uint32_t kept = keep_reading ? 1U << CAP_DAC_READ_SEARCH : 0;
  bool holds_any = false;
  for (const __user_cap_data_struct& set : held) {
    holds_any |= (set.effective | set.permitted | set.inheritable) != 0;
  }
  // Without capabilities capset is not needed, and a service manager's filter may forbid it.
  if (!holds_any) return 0;
  for (__user_cap_data_struct& set : held) {
    const std::uint32_t remaining = &set == held ? set.permitted & kept : 0;
    set.effective = remaining;
    set.permitted = remaining;
    set.inheritable = 0;
  }
  return syscall(SYS_capset, &header, held) == 0 ? 0 : errno;
}

// Parts that each thread gives up for itself, with the first error of each part.
struct Surrender {
  // -1: none.
  int ruleset;
  std::atomic<int> no_new_privileges{0};
  std::atomic<int> capabilities{0};
  std::atomic<int> landlock{0};
};

void Note(std::atomic<int>& first, int error) {
  int none = 0;
  if (error != 0) first.compare_exchange_strong(none, error);
}

int SurrenderThread(void* argument) {
  auto* surrender = static_cast<Surrender*>(argument);
  Note(surrender->no_new_privileges, ForbidNewPrivileges());
  Note(surrender->capabilities, DropCapabilities(true));
  if (surrender->ruleset >= 0) Note(surrender->landlock, EnterRuleset(surrender->ruleset));
  return 0;
}

}  // namespace

SandboxReport EnterSandbox(const Paths& paths) {
  const int version = LandlockVersion();
  const int ruleset = version == 0 ? -EOPNOTSUPP : MakeRuleset(paths);
  // Static: a thread that reacts after the timeout still reads it.
  static Surrender surrender{ruleset};
  const int broadcast = RunOnEveryThread(SurrenderThread, &surrender);
  if (ruleset >= 0) {
    close(ruleset);
  } else {
    Note(surrender.landlock, -ruleset);
  }
  if (broadcast != 0) {
    for (auto* part :
         {&surrender.no_new_privileges, &surrender.capabilities, &surrender.landlock}) {
      Note(*part, broadcast);
    }
  }
  return {.no_new_privileges = surrender.no_new_privileges,
          .capabilities = surrender.capabilities,
          .landlock = surrender.landlock,
          .landlock_version = version,
          .seccomp = InstallFilter()};
}

int LeaveLastCapability() {
  return RunOnEveryThread([](void*) { return DropCapabilities(false); }, nullptr);
}

#else

SandboxReport EnterSandbox(const Paths& /*paths*/) {
  return {.no_new_privileges = ENOTSUP,
          .capabilities = ENOTSUP,
          .landlock = ENOTSUP,
          .landlock_version = 0,
          .seccomp = ENOTSUP};
}

int LeaveLastCapability() { return ENOTSUP; }

#endif

}  // namespace svc::process
