// Weights interleaved for the kernels: where each lies, and what is read back.
#include "kernels/weight_matrix.h"

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "quantized_weights.h"
#include "test.h"

namespace svc {
namespace {

using test::QuantizedWeights;

TEST(WhatWasInterleavedIsReadBack) {
  if (SupportedKernels().empty()) return;
  for (const WeightType type : test::kAllWeightTypes) {
    const QuantizedWeights weights(type, 48, 512);
    const WeightMatrix& matrix = weights.Interleaved();
    std::vector<float> read(48 * 512);
    for (std::size_t i = 0; i < 48; ++i) ReadOutput(matrix, i, &read[i * 512]);
    EXPECT(read == weights.Dequantized());
  }
}

TEST(OnlyWholePanelsAndBlocksFit) {
  EXPECT(WeightMatrix::Fits(WeightType::kQ4_0, 16, 32));
  EXPECT(!WeightMatrix::Fits(WeightType::kQ4_0, 24, 32));
  EXPECT(!WeightMatrix::Fits(WeightType::kQ4_0, 16, 48));
  EXPECT(!WeightMatrix::Fits(WeightType::kQ4K, 16, 896));
}

// Interleaving moves bytes. It adds some only where scales and mins were packed.
TEST(AMatrixHasTheSizeOfItsWeightsInTheFile) {
  for (const WeightType type : test::kAllWeightTypes) {
    const WeightFormat format = FormatOf(type);
    const WeightMatrix matrix{.type = type, .outputs = 48, .depth = 512, .data = nullptr};
    // Nested scales and mins of six bits take a byte each.
    const std::size_t unpacked = format.has_mins() ? 4 * matrix.source_blocks() * 48 : 0;
    EXPECT_EQ(matrix.bytes(), 48 * 512 / format.source_weights * format.source_bytes + unpacked);
  }
}

// Output `o` of a panel has the words o, o + kPanel, ... of each block, so that one instruction
// loads the same weights of all outputs.
TEST(WeightsOfOneIndexLieTogetherForAllOutputsOfAPanel) {
  const QuantizedWeights weights(WeightType::kQ8_0, 2 * kPanel, 64);
  const WeightMatrix& matrix = weights.Interleaved();
  const std::vector<float> expected = weights.Dequantized();
  for (std::size_t output = 0; output < matrix.outputs; ++output) {
    const std::uint8_t* quants = matrix.quants(output / kPanel);
    for (std::size_t i = 0; i < matrix.depth; ++i) {
      const std::size_t word = i / 4 * kPanel + output % kPanel;
      const int quant = quants[4 * word + i % 4] - FormatOf(matrix.type).zero;
      // All weights of a block have one scale, a positive power of two.
      const float weight = expected[output * matrix.depth + i];
      EXPECT_EQ(quant < 0, weight < 0);
      EXPECT_EQ(quant == 0, weight == 0);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
