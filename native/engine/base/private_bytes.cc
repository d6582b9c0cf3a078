#include "engine/base/private_bytes.h"

#include <fstream>
#include <limits>
#include <string>

namespace svc {

std::optional<std::uint64_t> PrivateBytes() {
#ifdef __linux__
  std::ifstream status("/proc/self/status");
  std::uint64_t kilobytes = 0;
  int found = 0;
  for (std::string name; status >> name;) {
    if (name == "RssAnon:" || name == "RssShmem:") {
      std::uint64_t value = 0;
      status >> value;
      kilobytes += value;
      ++found;
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (found > 0) return kilobytes * 1024;
#endif
  return std::nullopt;
}

}  // namespace svc
