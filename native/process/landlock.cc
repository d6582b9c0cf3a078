#include "process/landlock.h"

#include <cerrno>

#ifdef __linux__
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace svc::process {

#ifdef __linux__

namespace {

// Values of linux/landlock.h, copied because the header may be older than the kernel.
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr std::uint32_t kAskVersion = 1U << 0;
constexpr std::uint32_t kAskErrata = 1U << 1;
constexpr int kPathBeneath = 1;

constexpr std::uint64_t kWriteFile = 1ULL << 1;
constexpr std::uint64_t kReadFile = 1ULL << 2;
constexpr std::uint64_t kReadFolder = 1ULL << 3;
constexpr std::uint64_t kRemoveFile = 1ULL << 5;
constexpr std::uint64_t kMakeFolder = 1ULL << 7;
constexpr std::uint64_t kMakeFile = 1ULL << 8;
constexpr std::uint64_t kTruncate = 1ULL << 14;
constexpr std::uint64_t kControlDevice = 1ULL << 15;
constexpr std::uint64_t kForFiles = 1ULL << 0 | kWriteFile | kReadFile | kTruncate | kControlDevice;

constexpr std::uint64_t kBindAndConnectTcp = 1ULL << 0 | 1ULL << 1;
constexpr std::uint64_t kAbstractSockets = 1ULL << 0;
constexpr std::uint64_t kSignals = 1ULL << 1;
// Erratum bit. Kernels without this fix also stop threads of a process from signalling each other.
constexpr long kSignalsFixed = 1L << 1;

struct RulesetAttributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};

struct [[gnu::packed]] PathBeneathAttributes {
  std::uint64_t allowed_access;
  std::int32_t parent_fd;
};

std::uint64_t HandledFileAccess(int version) {
  int bits = 13;
  if (version >= 2) bits = 14;
  if (version >= 3) bits = 15;
  if (version >= 5) bits = 16;
  return (1ULL << bits) - 1;
}

RulesetAttributes AttributesFor(int version) {
  RulesetAttributes attributes{HandledFileAccess(version), 0, 0};
  if (version >= 4) attributes.handled_access_net = kBindAndConnectTcp;
  if (version >= 6) {
    attributes.scoped = kAbstractSockets;
    if ((syscall(kCreateRuleset, nullptr, 0, kAskErrata) & kSignalsFixed) != 0) {
      attributes.scoped |= kSignals;
    }
  }
  return attributes;
}

// A rule refers to an inode, and an inode of /proc lives only while its directory entry is in use:
// the descriptor stays open to keep both.
bool HasToStayOpen(int file) {
  struct statfs system {};
  return fstatfs(file, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

int Allow(int ruleset, const std::string& path, std::uint64_t access, int flags) {
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC | flags);
  if (file < 0) return 0;
  struct stat status {};
  fstat(file, &status);
  if (!S_ISDIR(status.st_mode)) access &= kForFiles;
  const PathBeneathAttributes rule{access, file};
  // With O_NOFOLLOW a symbolic link opens as itself; it gets no rule.
  int error = 0;
  if (!S_ISLNK(status.st_mode) && syscall(kAddRule, ruleset, kPathBeneath, &rule, 0) != 0) {
    error = errno;
  }
  if (error != 0 || !HasToStayOpen(file)) close(file);
  return error;
}

int AllowAll(int ruleset, const Paths& paths, std::uint64_t handled) {
  const std::uint64_t read = (kReadFile | kReadFolder) & handled;
  const std::uint64_t write =
      read | ((kWriteFile | kMakeFile | kMakeFolder | kRemoveFile | kTruncate) & handled);
  const std::uint64_t control = read | ((kWriteFile | kControlDevice) & handled);
  int error = 0;
  for (const std::string& path : paths.read) {
    if (error == 0) error = Allow(ruleset, path, read, 0);
  }
  for (const std::string& path : paths.write) {
    if (error == 0) error = Allow(ruleset, path, write, O_NOFOLLOW);
  }
  for (const std::string& path : paths.devices) {
    if (error == 0) error = Allow(ruleset, path, control, 0);
  }
  return error;
}

// Size of the structure in this ABI version; older kernels know only its beginning.
std::size_t SizeFor(int version) {
  if (version >= 6) return sizeof(RulesetAttributes);
  return version >= 4 ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
}

}  // namespace

int LandlockVersion() {
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  return version < 0 ? 0 : static_cast<int>(version);
}

int MakeRuleset(const Paths& paths) {
  const int version = LandlockVersion();
  const RulesetAttributes attributes = AttributesFor(version);
  const auto ruleset = static_cast<int>(syscall(kCreateRuleset, &attributes, SizeFor(version), 0));
  if (ruleset < 0) return -errno;
  if (const int error = AllowAll(ruleset, paths, attributes.handled_access_fs); error != 0) {
    close(ruleset);
    return -error;
  }
  return ruleset;
}

int EnterRuleset(int ruleset) { return syscall(kRestrictSelf, ruleset, 0) == 0 ? 0 : errno; }

#else

int LandlockVersion() { return 0; }

int MakeRuleset(const Paths& /*paths*/) { return -ENOTSUP; }

int EnterRuleset(int /*ruleset*/) { return ENOTSUP; }

#endif

}  // namespace svc::process
