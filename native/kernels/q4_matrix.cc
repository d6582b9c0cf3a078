#include "kernels/q4_matrix.h"

#include <array>
#include <bit>
#include <cstring>

namespace svc {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kLowHalves = 0x0f0f0f0f;

// A block's four parts, each of four bytes.
std::array<std::uint32_t, 4> PartsOf(const Q4Block& block) {
  std::array<std::uint32_t, 4> words;
  std::memcpy(words.data(), block.weights, sizeof words);
  const auto [a, b, c, d] = words;
  return {(a & kLowHalves) | (b & kLowHalves) << 4, (c & kLowHalves) | (d & kLowHalves) << 4,
          (a >> 4 & kLowHalves) | (b & ~kLowHalves), (c >> 4 & kLowHalves) | (d & ~kLowHalves)};
}

}  // namespace

void Interleave(const Q4Block* source, const Q4Matrix& matrix) {
  const std::size_t blocks = matrix.blocks();
  for (std::size_t panel = 0; panel < matrix.panels(); ++panel) {
    for (std::size_t output = 0; output < kPanel; ++output) {
      std::uint8_t* weights = matrix.weights(panel) + output * sizeof(std::uint32_t);
      std::uint16_t* scales = matrix.scales(panel) + output;
      for (std::size_t b = 0; b < blocks; ++b) {
        for (const std::uint32_t part : PartsOf(*source)) {
          std::memcpy(weights, &part, sizeof part);
          weights += kPanel * sizeof part;
        }
        *scales = source->scale;
        scales += kPanel;
        ++source;
      }
    }
  }
}

}  // namespace svc
