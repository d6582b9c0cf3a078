// Random weights in the formats of ggml, and the same interleaved for the kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "aligned_bytes.h"
#include "ggml.h"
#include "kernels/weight_matrix.h"

namespace svc::test {

inline constexpr std::array kAllWeightTypes = {WeightType::kQ4_0, WeightType::kQ5_0,
                                               WeightType::kQ8_0, WeightType::kQ4K,
                                               WeightType::kQ5K,  WeightType::kQ6K};
static_assert(kAllWeightTypes.size() == kWeightTypes);

// Byte offsets of the half floats in a block of the file.
inline std::vector<std::size_t> HalvesOf(WeightType type) {
  switch (type) {
    case WeightType::kQ4K:
    case WeightType::kQ5K:
      return {0, 2};
    case WeightType::kQ6K:
      return {208};
    default:
      return {0};
  }
}

inline ggml_type GgmlTypeOf(WeightType type) {
  constexpr std::array kGgmlTypes = {GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0,
                                     GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
  return kGgmlTypes[static_cast<std::size_t>(type)];
}

class QuantizedWeights {
 public:
  QuantizedWeights(WeightType type, std::size_t outputs, std::size_t depth)
      : matrix_{.type = type, .outputs = outputs, .depth = depth, .data = nullptr},
        source_(outputs * depth / FormatOf(type).source_weights * FormatOf(type).source_bytes),
        data_(matrix_.bytes()) {
    matrix_.data = data_.data();
    std::mt19937 random(1);
    for (std::uint8_t& byte : source_) byte = static_cast<std::uint8_t>(random());
    SetHalves([&random] { return static_cast<int>(random() % 8) - 8; });
  }

  // Sets every byte that is not part of a half float to `byte`, and the half floats to 1.
  void Fill(std::uint8_t byte) {
    std::fill(source_.begin(), source_.end(), byte);
    SetHalves([] { return 0; });
  }

  // Returns the weights as ggml dequantizes them, [output][weight].
  std::vector<float> Dequantized() const {
    std::vector<float> weights(matrix_.outputs * matrix_.depth);
    ggml_get_type_traits(GgmlTypeOf(matrix_.type))
        ->to_float(source_.data(), weights.data(), static_cast<std::int64_t>(weights.size()));
    return weights;
  }

  // Valid while this object lives.
  const WeightMatrix& Interleaved() const {
    Interleave(source_.data(), matrix_);
    return matrix_;
  }

 private:
  // `exponent` returns the exponents of the powers of two that the half floats become, -14 to 15.
  template <typename Exponent>
  void SetHalves(Exponent exponent) {
    const std::size_t block = FormatOf(matrix_.type).source_bytes;
    for (std::size_t start = 0; start < source_.size(); start += block) {
      for (const std::size_t place : HalvesOf(matrix_.type)) {
        const auto half = static_cast<std::uint16_t>((exponent() + 15) << 10);
        std::memcpy(&source_[start + place], &half, sizeof half);
      }
    }
  }

  WeightMatrix matrix_;
  std::vector<std::uint8_t> source_;
  const AlignedBytes data_;
};

}  // namespace svc::test
