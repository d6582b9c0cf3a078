// Landlock (Linux 5.13): a process gives up access to all files but those that it names. The ABI
// version of the kernel decides what can be restricted:
//
//   1  reading, writing, creating, removing     4  TCP bind and connect
//   2  linking and renaming across folders      5  ioctl on devices
//   3  truncating                               6  abstract Unix sockets, signals to others
//
// No version restricts stat(), chmod(), chown(), extended attributes or pathname Unix sockets.
// seccomp_filter.h blocks all of these but stat().
#pragma once

#include <string>
#include <vector>

namespace svc::process {

// Paths of files and folders; a folder includes everything in it. Paths that do not exist are
// skipped.
struct Paths {
  std::vector<std::string> read;
  // Files can be read, written, created and removed. Symbolic links are not followed.
  std::vector<std::string> write;
  // Devices can be read, written and controlled by ioctl.
  std::vector<std::string> devices;
};

// Returns the Landlock ABI version of this kernel; 0 if Landlock is missing or disabled.
int LandlockVersion();

// Returns the descriptor of a ruleset that allows `paths` and nothing else, or -errno. REQUIRES:
// LandlockVersion() > 0.
int MakeRuleset(const Paths& paths);

// Restricts the calling thread and the threads that it creates. Async-signal-safe. Returns 0 or an
// errno.
// REQUIRES: no_new_privs is set.
int EnterRuleset(int ruleset);

}  // namespace svc::process
