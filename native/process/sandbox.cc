#include "process/sandbox.h"

#include <cerrno>

#ifdef __linux__
#include <unistd.h>

#include <atomic>
#endif

#include "process/every_thread.h"
#include "process/privileges.h"
#include "process/seccomp_filter.h"

namespace svc::process {

#ifdef __linux__

namespace {

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
