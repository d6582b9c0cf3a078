#include "engine/base/mapped_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#endif

namespace svc {

#ifdef __linux__
namespace {

// False for devices: a page that NVIDIA's driver has mapped does not come back, the next access to
// it ends the process with SIGBUS. False for files that have no name any more, such as memfds.
bool IsRegularFile(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace
#endif

void ForgetMappedPages() {
#ifdef __linux__
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string access;
    std::string offset;
    std::string device;
    std::string inode;
    std::string path;
    fields >> std::hex >> begin >> dash >> end >> access >> offset >> device >> inode >> std::ws;
    // Shared and read-only, as libllama maps files; code and its data are private.
    if (!fields || access != "r--s") continue;
    if (!std::getline(fields, path) || !IsRegularFile(path)) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel reports addresses as text
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
#endif
}

}  // namespace svc
