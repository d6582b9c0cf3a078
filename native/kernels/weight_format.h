#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Weights per block in the layout of our kernels (weight_matrix.h).
constexpr std::size_t kBlock = 32;

// A quantization type of ggml, as far as the kernels need it:
// weight = scale * (quant - zero) - min, where a quant is an integer >= 0.
struct WeightFormat {
  // Weights and bytes per block of the model file.
  std::size_t source_weights;
  std::size_t source_bytes;
  // Bits per quant.
  std::size_t bits;
  // Scales per kBlock weights: 1, or 2 (one for each half).
  std::size_t scales;
  // Quant that represents weight 0 in a format without mins. 0: the file stores mins.
  int zero;

  // True if scales and mins are stored as bytes and multiplied by a half float of the file's block.
  constexpr bool has_nested_scales() const { return source_weights > kBlock; }
  constexpr bool has_mins() const { return zero == 0; }
  constexpr std::size_t blocks_per_source() const { return source_weights / kBlock; }
};

enum class WeightType : std::uint8_t { kQ4_0, kQ5_0, kQ8_0, kQ4K, kQ5K, kQ6K };
constexpr std::size_t kWeightTypes = 6;

inline constexpr WeightFormat kWeightFormats[kWeightTypes] = {
    {.source_weights = 32, .source_bytes = 18, .bits = 4, .scales = 1, .zero = 8},
    {.source_weights = 32, .source_bytes = 22, .bits = 5, .scales = 1, .zero = 16},
    {.source_weights = 32, .source_bytes = 34, .bits = 8, .scales = 1, .zero = 128},
    {.source_weights = 256, .source_bytes = 144, .bits = 4, .scales = 1, .zero = 0},
    {.source_weights = 256, .source_bytes = 176, .bits = 5, .scales = 1, .zero = 0},
    {.source_weights = 256, .source_bytes = 210, .bits = 6, .scales = 2, .zero = 32},
};

constexpr WeightFormat FormatOf(WeightType type) {
  return kWeightFormats[static_cast<std::size_t>(type)];
}

}  // namespace svc
