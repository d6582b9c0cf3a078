#include "process/privileges.h"

#include <cerrno>

#ifdef __linux__
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace svc::process {

#ifdef __linux__

int ForbidNewPrivileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno; }

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

#else

int ForbidNewPrivileges() { return ENOTSUP; }

int DropCapabilities(bool /*keep_reading*/) { return ENOTSUP; }

#endif

}  // namespace svc::process
