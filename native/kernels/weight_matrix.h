#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace svc {

// Outputs that are computed together.
constexpr std::size_t kPanel = 16;

// Weights, interleaved so that one instruction serves 16 outputs. Owns nothing.
//
// First the quants, [panel][block][...], of a block:
//   of 8 bits: [four of 32][output][byte of 4];
//   of fewer:  their low halves, [eight of 32][output][byte of 4]: byte j of eight i holds quant
//              8i + j in its low half and quant 8i + 4 + j in its high one; then what is above
//              them, [output][byte of 4], once for each bit: byte j holds the bits of quants j, 4 +
//              j, 8 + j, ... from its highest bit on.
// Then the scales, [panel][...]:
//   of kBlock weights: [block][output] half floats;
//   nested:            for each block of the file: [output] half floats, for scales and then, if
//                      there are any, for mins; then [block][scale, ..., min][output] bytes.
struct WeightMatrix {
  // Whether a matrix of this shape can be interleaved.
  static constexpr bool Fits(WeightType type, std::size_t outputs, std::size_t depth) {
    return outputs % kPanel == 0 && depth % FormatOf(type).source_weights == 0;
  }

  WeightType type;
  std::size_t outputs;
  // How many activations make an output.
  std::size_t depth;
  // bytes(), to be aligned to 64.
  std::uint8_t* data;

  static constexpr std::size_t QuantBytes(WeightType type) {
    return kPanel * kBlock * FormatOf(type).bits / 8;
  }
  // Of a block of the file.
  static constexpr std::size_t ScaleBytes(WeightType type) {
    const WeightFormat format = FormatOf(type);
    const std::size_t mins = format.has_mins() ? 1 : 0;
    const std::size_t halves = kPanel * sizeof(std::uint16_t) * (1 + mins);
    if (!format.has_nested_scales()) return halves;
    return halves + format.blocks_per_source() * (format.scales + mins) * kPanel;
  }

  // Bytes from a panel's scales to the half floats of block `b`: of its scales or, for the index
  // behind these, of its min.
  static constexpr std::size_t HalvesAt(WeightType type, std::size_t b, std::size_t index) {
    const WeightFormat format = FormatOf(type);
    const std::size_t of_min = index == format.scales ? kPanel * sizeof(std::uint16_t) : 0;
    return b / format.blocks_per_source() * ScaleBytes(type) + of_min;
  }
  // The same to the bytes that they are to be multiplied with, where scales are nested.
  static constexpr std::size_t NestedAt(WeightType type, std::size_t b, std::size_t index) {
    const WeightFormat format = FormatOf(type);
    const std::size_t mins = format.has_mins() ? 1 : 0;
    const std::size_t before = b % format.blocks_per_source() * (format.scales + mins) + index;
    return b / format.blocks_per_source() * ScaleBytes(type) +
           (1 + mins) * kPanel * sizeof(std::uint16_t) + before * kPanel;
  }

  std::size_t panels() const { return outputs / kPanel; }
  std::size_t blocks() const { return depth / kBlock; }
  std::size_t source_blocks() const { return depth / FormatOf(type).source_weights; }
  std::size_t bytes() const {
    return panels() * (blocks() * QuantBytes(type) + source_blocks() * ScaleBytes(type));
  }
  std::uint8_t* quants(std::size_t panel) const {
    return data + panel * blocks() * QuantBytes(type);
  }
  std::uint8_t* scales(std::size_t panel) const {
    return quants(panels()) + panel * source_blocks() * ScaleBytes(type);
  }
};

// Fills a matrix from its blocks of the file, [output][block].
void Interleave(const std::uint8_t* source, const WeightMatrix& matrix);

// The weights of one output, `depth` of them, as ggml rounds them. Needs F16C.
void ReadOutput(const WeightMatrix& matrix, std::size_t output, float* weights);

}  // namespace svc
