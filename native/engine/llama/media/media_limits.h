// Limits of a picture or sound, checked before it is decoded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

inline constexpr std::size_t kMaxMediaBytes = std::size_t{20} << 20U;  // LIMITS.mediaBytes
inline constexpr std::uint64_t kMaxPixels = 50'000'000;                // LIMITS.mediaPixels
// Longer sides and longer strips than these would be resized to nothing.
inline constexpr int kMaxSide = 16'384;
inline constexpr int kMaxSidesRatio = 200;
inline constexpr std::uint32_t kMaxSeconds = 600;  // LIMITS.mediaSeconds

}  // namespace svc
