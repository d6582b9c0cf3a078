#include "process/inherited_files.h"

#ifdef __linux__
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>
#endif

namespace svc::process {

#ifdef __linux__

void CloseInheritedFiles(int last) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::vector<int> inherited;
  while (const dirent* entry = readdir(folder)) {
    const int file = std::atoi(entry->d_name);
    if (file <= last || file == dirfd(folder)) continue;
    const int flags = fcntl(file, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) inherited.push_back(file);
  }
  closedir(folder);
  for (const int file : inherited) close(file);
}

#else

void CloseInheritedFiles(int /*last*/) {}

#endif

}  // namespace svc::process
