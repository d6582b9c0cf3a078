// Landlock (Linux 5.13): a process gives up all files but those that it names. What a kernel can
// restrict depends on its ABI version:
//
//   1  reading, writing, creating, removing     4  TCP bind and connect
//   2  linking and renaming across folders      5  ioctl on devices
//   3  truncating                               6  abstract Unix sockets, signals to others
//
// Not restricted by any version: stat(), chmod(), chown(), extended attributes, pathname Unix
// sockets. Seccomp takes all of these but stat() away.
#pragma once

#include <string>
#include <vector>

namespace svc::process {

// Files and folders; a folder stands for all in it. Paths that do not exist are skipped.
struct Paths {
  std::vector<std::string> read;
  // Links are not followed. Read, written, created, removed.
  std::vector<std::string> write;
  // Read, written, controlled by ioctl.
  std::vector<std::string> devices;
};

// The ABI version of this kernel; 0 without Landlock, or where it is turned off.
int LandlockVersion();

// Returns the descriptor of a ruleset that allows `paths` and nothing else, or -errno. REQUIRES:
// LandlockVersion() > 0.
int MakeRuleset(const Paths& paths);

// Restricts the calling thread and those that it creates. Async-signal-safe. Returns 0 or errno.
// REQUIRES: no_new_privs is set.
int EnterRuleset(int ruleset);

}  // namespace svc::process
