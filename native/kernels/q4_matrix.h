#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Outputs that are computed together.
constexpr std::size_t kPanel = 16;
// Values that share a scale.
constexpr std::size_t kBlock = 32;

// Of ggml's Q4_0: a scale as a half float, then weight i in the low half of byte i and weight i +
// 16 in the high one, each plus 8.
struct Q4Block {
  std::uint16_t scale;
  std::uint8_t weights[kBlock / 2];
};
static_assert(sizeof(Q4Block) == 18);

// Q4_0 weights, interleaved so that one instruction serves 16 outputs. As large as the blocks that
// it is made of. Owns nothing.
struct Q4Matrix {
  // Whether a matrix of this shape can be interleaved.
  static bool Fits(std::size_t outputs, std::size_t depth) {
    return outputs % kPanel == 0 && depth % kBlock == 0;
  }

  std::size_t outputs;
  // How many activations make an output.
  std::size_t depth;
  // First the weights, [panel][block][part of 4][output][byte of 4]: byte j of part i holds weight
  // 8i + j in its low half and weight 8i + 4 + j in its high one. Then the scales,
  // [panel][block][output]. To be aligned to 64 bytes.
  std::uint8_t* data;

  std::size_t panels() const { return outputs / kPanel; }
  std::size_t blocks() const { return depth / kBlock; }
  std::uint8_t* weights(std::size_t panel) const { return data + panel * kPanel * depth / 2; }
  std::uint16_t* scales(std::size_t panel) const {
    return reinterpret_cast<std::uint16_t*>(data + outputs * depth / 2) + panel * kPanel * blocks();
  }
};

// Fills a matrix from its blocks, [output][block].
void Interleave(const Q4Block* source, const Q4Matrix& matrix);

}  // namespace svc
