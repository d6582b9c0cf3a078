#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/base/ids.h"

namespace svc {

// Number of leading tokens that are equal in both.
inline std::uint32_t CommonLength(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<std::uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace svc
