#include "engine/base/mapped_pages.h"

#ifdef __linux__
#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#endif

namespace svc {

void ForgetMappedPages() {
#ifdef __linux__
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string access;
    fields >> std::hex >> begin >> dash >> end >> access;
    // Shared and read-only, as libllama maps files; code and its data are private.
    if (!fields || access != "r--s") continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel reports addresses as text
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
#endif
}

}  // namespace svc
