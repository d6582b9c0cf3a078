// Rows of activations as signed bytes: rounding, scales, the sums that kernels add, infinity and
// NaN.
#include "kernels/quantized_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "aligned_bytes.h"
#include "kernels/kernels.h"
#include "kernels/weight_format.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::size_t kDepth = 3 * kBlock;

std::vector<float> RandomRow(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(kDepth);
  for (float& value : row) value = normal(random);
  return row;
}

// Rows to be multiplied with weights of this type; each byte is 0xAB before.
class Rows {
 public:
  explicit Rows(std::size_t count, WeightType weights = WeightType::kQ4_0)
      : size_(QuantizedRows::BytesFor(count, kDepth)),
        bytes_(size_),
        rows_(bytes_.data(), count, kDepth, FormatOf(weights)) {
    std::memset(bytes_.data(), 0xAB, size_);
  }

  void Set(std::size_t row, const std::vector<float>& values) { rows_.Set(row, values.data()); }
  std::vector<std::uint8_t> Bytes() const { return {bytes_.data(), bytes_.data() + size_}; }

  // What is stored of block `b` of a row.
  struct Block {
    std::vector<int> values;
    float scale;
    std::int32_t offsets[2];
    float sum;
  };
  Block BlockOf(std::size_t row, std::size_t b) const {
    const std::size_t at = row % kRowGroup;
    RowBlock block = rows_.Group(row - at);
    for (; b > 0; --b) block = block.next();
    const auto* values = reinterpret_cast<const std::int8_t*>(block.values(at));
    return {.values = {values, values + kBlock},
            .scale = block.scales()[at],
            .offsets = {block.offsets(0)[at], block.offsets(1)[at]},
            .sum = block.sums()[at]};
  }

 private:
  const std::size_t size_;
  const test::AlignedBytes bytes_;
  const QuantizedRows rows_;
};

int SumOf(const std::vector<int>& values, std::size_t begin, std::size_t end) {
  int sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += values[i];
  return sum;
}

TEST(EachBlockIsScaledByItsLargestMagnitude) {
  if (SupportedKernels().empty()) return;
  Rows rows(1);
  const std::vector<float> row = RandomRow(1);
  rows.Set(0, row);
  for (std::size_t b = 0; b < kDepth / kBlock; ++b) {
    const float* values = &row[b * kBlock];
    float largest = 0;
    for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(values[i]));
    const Rows::Block block = rows.BlockOf(0, b);
    EXPECT_EQ(block.scale, largest / 127);
    for (std::size_t i = 0; i < kBlock; ++i) {
      EXPECT_EQ(block.values[i], static_cast<int>(std::nearbyint(values[i] * (127 / largest))));
    }
  }
}

// What a kernel adds for weights stored as quants above zero, and for mins.
TEST(OffsetsAndSumsAreThoseOfTheRoundedValues) {
  if (SupportedKernels().empty()) return;
  for (std::size_t i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const WeightFormat format = FormatOf(type);
    Rows rows(1, type);
    rows.Set(0, RandomRow(2));
    for (std::size_t b = 0; b < kDepth / kBlock; ++b) {
      const Rows::Block block = rows.BlockOf(0, b);
      const int first = SumOf(block.values, 0, kBlock / 2);
      const int second = SumOf(block.values, kBlock / 2, kBlock);
      EXPECT(first != 0 && second != 0);
      const bool has_halves = format.scales == 2;
      EXPECT_EQ(block.offsets[0], -format.zero * (has_halves ? first : first + second));
      EXPECT_EQ(block.offsets[1], has_halves ? -format.zero * second : 0);
      EXPECT_EQ(block.sum, block.scale * static_cast<float>(first + second));
    }
  }
}

TEST(ARowIsWrittenBesideTheOthersOfItsGroup) {
  if (SupportedKernels().empty()) return;
  constexpr std::size_t kRows = kRowGroup + 3;
  Rows together(kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::vector<std::uint8_t> before = together.Bytes();
    together.Set(r, RandomRow(static_cast<unsigned>(r)));
    const std::vector<std::uint8_t> after = together.Bytes();
    std::size_t changed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
    EXPECT(changed <= kDepth / kBlock * RowBlock::kBytesPerRow);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    Rows alone(1);
    alone.Set(0, RandomRow(static_cast<unsigned>(r)));
    for (std::size_t b = 0; b < kDepth / kBlock; ++b) {
      EXPECT(together.BlockOf(r, b).values == alone.BlockOf(0, b).values);
      EXPECT_EQ(together.BlockOf(r, b).sum, alone.BlockOf(0, b).sum);
    }
  }
}

TEST(ABlockWithInfinityOrNaNIsMarked) {
  if (SupportedKernels().empty()) return;
  for (const float broken : {NAN, -NAN, INFINITY, -INFINITY}) {
    Rows rows(1, WeightType::kQ6K);
    std::vector<float> row = RandomRow(3);
    row[kBlock + 5] = broken;
    rows.Set(0, row);
    const Rows::Block block = rows.BlockOf(0, 1);
    EXPECT(std::isnan(block.scale) && std::isnan(block.sum));
    EXPECT(block.values == std::vector<int>(kBlock) && block.offsets[0] == 0);
    EXPECT_EQ(block.offsets[1], 0);
    for (const std::size_t b : {0U, 2U}) EXPECT(std::isfinite(rows.BlockOf(0, b).scale));
  }
}

TEST(ValuesTooSmallForAScaleAreZeros) {
  if (SupportedKernels().empty()) return;
  for (const float value : {0.0F, 1e-45F, 1e-37F}) {
    Rows rows(1);
    rows.Set(0, std::vector<float>(kDepth, value));
    const Rows::Block block = rows.BlockOf(0, 0);
    EXPECT(block.values == std::vector<int>(kBlock));
    EXPECT(std::isfinite(block.scale) && block.sum == 0 && block.offsets[0] == 0);
  }
  Rows rows(1);
  rows.Set(0, std::vector<float>(kDepth, 1e-35F));
  EXPECT(rows.BlockOf(0, 0).values == std::vector<int>(kBlock, 127));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
