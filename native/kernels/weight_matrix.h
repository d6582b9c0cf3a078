#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace svc {

// Outputs per panel; a panel is computed together.
constexpr std::size_t kPanel = 16;

// Quantized weights, interleaved so that one instruction serves 16 outputs. Non-owning.
//
// First the quants, [panel][block][...]. Within a block:
//   8 bits:        [kBlock / 4][output][4 bytes], a quant per byte;
//   4 to 6 bits:   the low four bits, [kBlock / 8][output][4 bytes]: byte j of element i holds
//                  quant 8i + j in its low half and quant 8i + 4 + j in its high half;
//                  then the high bits, [bits - 4][output][4 bytes]: from its highest bit down,
//                  byte j holds those of quants j, 4 + j, 8 + j, ...
// Then the scales, [panel][...]:
//   not nested:    [block][output] half floats;
//   nested:        for each block of the file: [output] half floats for the scales, the same for
//                  the mins if the format has mins, then [block][scale, ..., min][output] bytes.
struct WeightMatrix {
  // True if a matrix of this shape can be interleaved.
  static constexpr bool Fits(WeightType type, std::size_t outputs, std::size_t depth) {
    return outputs % kPanel == 0 && depth % FormatOf(type).source_weights == 0;
  }

  WeightType type;
  std::size_t outputs;
  // Activations (and weights) per output.
  std::size_t depth;
  // bytes() bytes, aligned to 64.
  std::uint8_t* data;

  // Bytes of quants per panel and block.
  static constexpr std::size_t QuantBytes(WeightType type) {
    return kPanel * kBlock * FormatOf(type).bits / 8;
  }
  // Bytes of scales and mins per panel and block of the file.
  static constexpr std::size_t ScaleBytes(WeightType type) {
    const WeightFormat format = FormatOf(type);
    const std::size_t mins = format.has_mins() ? 1 : 0;
    const std::size_t halves = kPanel * sizeof(std::uint16_t) * (1 + mins);
    if (!format.has_nested_scales()) return halves;
    return halves + format.blocks_per_source() * (format.scales + mins) * kPanel;
  }

  // Byte offset from a panel's scales to the half floats of block `b`. `index`: number of the
  // scale, or format.scales for the min.
  static constexpr std::size_t HalvesAt(WeightType type, std::size_t b, std::size_t index) {
    const WeightFormat format = FormatOf(type);
    const std::size_t of_min = index == format.scales ? kPanel * sizeof(std::uint16_t) : 0;
    return b / format.blocks_per_source() * ScaleBytes(type) + of_min;
  }
  // As HalvesAt, for the nested scale or min bytes. REQUIRES: FormatOf(type).has_nested_scales().
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

// Fills `matrix` from the blocks of the model file, [output][block].
void Interleave(const std::uint8_t* source, const WeightMatrix& matrix);

// Dequantizes the `depth` weights of one output, rounded as ggml does. Needs F16C.
void ReadOutput(const WeightMatrix& matrix, std::size_t output, float* weights);

}  // namespace svc
