#include "kernels/attention.h"

#include <algorithm>
#include <array>

namespace svc {

bool CanAttend(std::size_t head_length) {
  constexpr std::array<std::size_t, 6> kLengths = {32, 64, 80, 96, 128, 256};
  return std::ranges::find(kLengths, head_length) != kLengths.end();
}

std::size_t AttentionScratch(std::size_t head_length, std::size_t rows, std::size_t heads,
                             std::size_t cells) {
  const std::size_t tile = AttentionTile(head_length);
  const std::size_t floats =
      tile * head_length + rows * heads * (2 * head_length + tile + 2) + tile;
  const std::size_t bytes =
      floats * sizeof(float) + 2 * (cells + kVectorLength) * sizeof(std::int32_t);
  return (bytes + 63) / 64 * 64;
}

}  // namespace svc
