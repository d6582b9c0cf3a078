#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/base/request.h"

namespace svc {

// Number of leading tokens that are equal in both.
inline std::uint32_t CommonLength(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<std::uint32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                    a.begin());
}

}  // namespace svc
