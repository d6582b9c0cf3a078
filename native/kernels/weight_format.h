#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Weights that a matrix_kernel.h takes together.
constexpr std::size_t kBlock = 32;

// A type of ggml's, as far as it matters here: a weight is scale * quant - min, and a quant a whole
// number from 0 on.
struct WeightFormat {
  // Of a block in the file, in weights and in bytes.
  std::size_t source_weights;
  std::size_t source_bytes;
  // Of a quant.
  std::size_t bits;
  // For each kBlock weights: one, or one for each half.
  std::size_t scales;
  // The quant that stands for 0, so that min is its scale times as much. 0: mins are in the file.
  int zero;

  // Scales, and mins, are bytes, and have another scale for the whole block of the file.
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
