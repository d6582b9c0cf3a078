// The attention kernels, compared with attention in double precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::uint16_t kHidden = 0xfc00;

// Converts multiples of 1/16 from -2 to 2, which half floats hold exactly.
std::uint16_t HalfOf(double value) {
  if (value == 0) return 0;
  const std::uint16_t sign = value < 0 ? 0x8000 : 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);
  const auto mantissa = static_cast<std::uint16_t>((fraction * 2 - 1) * 1024);
  return static_cast<std::uint16_t>(sign | (exponent + 14) << 10 | mantissa);
}

// Queries of several rows and heads, and the keys and values that they share.
class Case {
 public:
  Case(std::size_t length, std::size_t heads, std::size_t cells, std::size_t rows = 1)
      : length_(length), heads_(heads), cells_(cells), rows_(rows), mask(rows * cells) {
    const auto fill = [this](std::vector<double>& values, std::vector<std::uint16_t>& halves) {
      for (std::size_t i = 0; i < cells_ * length_; ++i) {
        values.push_back((static_cast<int>(random_() % 65) - 32) / 16.0);
        halves.push_back(HalfOf(values.back()));
      }
    };
    fill(keys_, key_halves_);
    fill(values_, value_halves_);
    // Not std::normal_distribution, whose numbers depend on the library.
    for (std::size_t i = 0; i < rows * heads * length; ++i) {
      queries_.push_back(static_cast<float>(static_cast<int>(random_() % 8193) - 4096) / 2048);
    }
  }

  // Returns the outputs of all rows, [row][head][length].
  std::vector<float> Attended(AttentionKernel* attend) { return Attended(attend, 0, rows_); }
  std::vector<float> Attended(AttentionKernel* attend, std::size_t first, std::size_t rows) {
    std::vector<std::uint8_t> scratch(AttentionScratch(length_, rows, heads_, cells_));
    std::vector<float> outputs(rows * heads_ * length_, NAN);
    attend({.head_length = length_,
            .cells = cells_,
            .keys = key_halves_.data(),
            .key_stride = length_,
            .values = value_halves_.data(),
            .value_stride = length_,
            .mask = mask.empty() ? nullptr : mask.data() + first * cells_,
            .mask_stride = cells_,
            .scale = kScale,
            .rows = rows,
            .heads = heads_,
            .queries = queries_.data() + first * heads_ * length_,
            .query_row_stride = heads_ * length_,
            .query_stride = length_,
            .outputs = outputs.data(),
            .output_row_stride = heads_ * length_,
            .output_stride = length_},
           scratch.data());
    return outputs;
  }

  // Copies cell `of` and the queries of `other`, and makes the cell visible.
  void PutCell(std::size_t cell, const Case& other, std::size_t of) {
    const auto copy = [&](std::vector<std::uint16_t>& to, const std::vector<std::uint16_t>& from) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(of * length_), length_,
                  to.begin() + static_cast<std::ptrdiff_t>(cell * length_));
    };
    copy(key_halves_, other.key_halves_);
    copy(value_halves_, other.value_halves_);
    queries_ = other.queries_;
    mask[cell] = 0;
  }

  void ExpectRight() {
    const std::vector<float> actual = Attended(SupportedKernels().front().attend);
    for (const Kernels& kernels : SupportedKernels()) EXPECT(Attended(kernels.attend) == actual);
    for (std::size_t head = 0; head < heads_; ++head) {
      std::vector<double> weights(cells_);
      double total = 0;
      for (std::size_t cell = 0; cell < cells_; ++cell) {
        if (!mask.empty() && mask[cell] == kHidden) continue;
        double score = mask.empty() || mask[cell] == 0 ? 0 : kBias;
        for (std::size_t i = 0; i < length_; ++i) {
          score += kScale * queries_[head * length_ + i] * keys_[cell * length_ + i];
        }
        weights[cell] = std::exp(score);
        total += weights[cell];
      }
      for (std::size_t i = 0; i < length_; ++i) {
        double expected = 0;
        for (std::size_t cell = 0; cell < cells_; ++cell) {
          expected += weights[cell] / total * values_[cell * length_ + i];
        }
        EXPECT(std::abs(actual[head * length_ + i] - expected) < 1e-5);
      }
    }
  }

  static constexpr float kScale = 0.125F;
  static constexpr double kBias = -1.5;

 private:
  const std::size_t length_;
  const std::size_t heads_;
  const std::size_t cells_;
  const std::size_t rows_;
  std::mt19937 random_{1};
  std::vector<double> keys_;
  std::vector<double> values_;
  std::vector<std::uint16_t> key_halves_;
  std::vector<std::uint16_t> value_halves_;
  std::vector<float> queries_;

 public:
  std::vector<std::uint16_t> mask;
};

TEST(EachHeadSeesWhatTheMaskLeaves) {
  if (SupportedKernels().empty()) return;
  std::mt19937 random(2);
  for (const std::size_t length : {32, 64, 80, 96, 128, 256}) {
    EXPECT(CanAttend(length));
    for (const std::size_t cells : {1, 15, 16, 17, 32, 33, 200, 1000}) {
      Case each(length, 7, cells);
      each.ExpectRight();
      for (std::uint16_t& value : each.mask) value = random() % 3 == 0 ? kHidden : 0;
      each.mask.back() = HalfOf(Case::kBias);
      each.ExpectRight();
      each.mask.clear();
      each.ExpectRight();
    }
  }
}

// A mask for each kind of rows that a batch has, [row][cell].
std::vector<std::vector<std::uint16_t>> MasksOf(std::size_t rows, std::size_t cells) {
  const auto fill = [&](auto see) {
    std::vector<std::uint16_t> mask(rows * cells, kHidden);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (see(i / cells, i % cells)) mask[i] = 0;
    }
    return mask;
  };
  const std::size_t before = cells - rows;  // cells that each row sees
  std::vector<std::vector<std::uint16_t>> masks = {
      // One text, then one text among the cells of others, then within a window.
      fill([&](std::size_t row, std::size_t cell) { return cell <= before + row; }),
      fill(
          [&](std::size_t row, std::size_t cell) { return cell % 3 != 1 && cell <= before + row; }),
      fill([&](std::size_t row, std::size_t cell) {
        return cell <= before + row && cell + 20 > before + row;
      }),
      // The rows of two texts, one after the other, and in turns.
      fill([&](std::size_t row, std::size_t cell) { return cell % 2 == row / 4 % 2; }),
      fill([&](std::size_t row, std::size_t cell) { return cell % 2 == row % 2; }),
      // Rows that see nothing, and rows that see less than the one before.
      fill([&](std::size_t row, std::size_t cell) { return row > 2 && cell < cells - 5 * row; }),
  };
  masks.push_back(masks[0]);
  masks.back()[2 * cells] = HalfOf(Case::kBias);
  return masks;
}

// Bit-identical: a text must not depend on the size of its batches.
TEST(RowsTogetherAreThoseOfEachAlone) {
  for (const Kernels& kernels : SupportedKernels()) {
    for (const std::size_t length : {32, 64, 80, 96, 128, 256}) {
      for (const std::size_t cells : {10, 33, 200}) {
        Case each(length, 3, cells, kAttentionRows);
        for (const std::vector<std::uint16_t>& mask : MasksOf(kAttentionRows, cells)) {
          each.mask = mask;
          const std::vector<float> together = each.Attended(kernels.attend);
          std::vector<float> alone;
          for (std::size_t row = 0; row < kAttentionRows; ++row) {
            const std::vector<float> one = each.Attended(kernels.attend, row, 1);
            alone.insert(alone.end(), one.begin(), one.end());
          }
          EXPECT(together == alone);
        }
        each.mask.clear();
        const std::vector<float> all = each.Attended(kernels.attend);
        EXPECT(std::ranges::equal(each.Attended(kernels.attend, 3, 1),
                                  std::span(all).subspan(9 * length, 3 * length)));
      }
    }
  }
}

// Returns a hash of the outputs of one case per head length, number of cells and kind of mask.
std::uint64_t DigestOf(AttentionKernel* attend) {
  // Not kAttentionRows: the digest must not change with it.
  constexpr std::size_t kRows = 8;
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](const std::vector<float>& outputs) {
    for (const float output : outputs) {
      digest = (digest ^ std::bit_cast<std::uint32_t>(output)) * 0x100000001b3;
    }
  };
  for (const std::size_t length : {32, 64, 80, 96, 128, 256}) {
    for (const std::size_t cells : {10, 33, 200}) {
      Case each(length, 3, cells, kRows);
      for (const std::vector<std::uint16_t>& mask : MasksOf(kRows, cells)) {
        each.mask = mask;
        add(each.Attended(attend));
      }
      each.mask.clear();
      add(each.Attended(attend));
    }
  }
  return digest;
}

// Bit-identical on x86-64 and arm64: a text must not depend on the machine.
TEST(EveryProcessorComputesTheSame) {
  for (const Kernels& kernels : SupportedKernels()) {
    EXPECT_EQ(DigestOf(kernels.attend), 0x867635f1f3a4fdeaU);
  }
}

// Bit-identical: a text must not depend on other sequences in the cache.
TEST(WhatIsHiddenChangesNothing) {
  if (SupportedKernels().empty()) return;
  Case dense(64, 2, 40);
  const std::vector<float> expected = dense.Attended(SupportedKernels().front().attend);
  Case sparse(64, 2, 400);
  std::fill(sparse.mask.begin(), sparse.mask.end(), kHidden);
  for (std::size_t cell = 0; cell < 40; ++cell) sparse.PutCell(cell * 9 + 5, dense, cell);
  EXPECT(sparse.Attended(SupportedKernels().front().attend) == expected);
}

TEST(ARowThatSeesNothingIsZeros) {
  if (SupportedKernels().empty()) return;
  Case blind(64, 3, 100);
  std::fill(blind.mask.begin(), blind.mask.end(), kHidden);
  for (const float output : blind.Attended(SupportedKernels().front().attend))
    EXPECT_EQ(output, 0.0F);
}

TEST(OtherLengthsAreLeftToOthers) { EXPECT(!CanAttend(72)); }

}  // namespace
}  // namespace svc

TEST_MAIN()
