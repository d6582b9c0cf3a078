#include "engine/base/json_depth.h"

#include <algorithm>

namespace svc {

std::size_t JsonDepth(std::string_view json) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (byte == '"') {
      is_text = !is_text;
    } else if (is_text) {
      if (byte == '\\') ++i;
    } else if (byte == '[' || byte == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (byte == ']' || byte == '}') {
      depth -= std::min<std::size_t>(depth, 1);
    }
  }
  return deepest;
}

}  // namespace svc
