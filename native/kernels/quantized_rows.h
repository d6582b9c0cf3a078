#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace svc {

// Maximum number of rows that share one load of weights.
constexpr std::size_t kRowGroup = 8;

// kBlock activations of each row of a group. Layout: [row][kBlock] values (signed bytes), then
// [row] scales, then [2][row] offsets, then [row] sums. Non-owning.
struct RowBlock {
  static constexpr std::size_t kBytesPerRow = kBlock + 2 * sizeof(float) + 2 * sizeof(std::int32_t);

  std::uint8_t* data;
  // Number of rows in the group.
  std::size_t size;

  std::uint8_t* values(std::size_t row) const { return data + row * kBlock; }
  float* scales() const { return reinterpret_cast<float*>(data + size * kBlock); }
  // Corrections that are added to a dot product of quants and values: -WeightFormat::zero times
  // the sum of the values. With two scales per block offsets(0) and offsets(1) are for its halves;
  // otherwise offsets(0) is for the whole block and offsets(1) is 0.
  std::int32_t* offsets(std::size_t half) const {
    return reinterpret_cast<std::int32_t*>(scales() + size) + half * size;
  }
  // Scaled sums of the block's values, for weights with mins.
  float* sums() const { return reinterpret_cast<float*>(offsets(2)); }
  RowBlock next() const { return {.data = data + size * kBytesPerRow, .size = size}; }
};

// Rows of activations, quantized to signed bytes with one scale per kBlock values. Layout:
// [group][block], so that a kernel reads a group along one pointer. Non-owning.
class QuantizedRows {
 public:
  static std::size_t BytesFor(std::size_t rows, std::size_t depth) {
    return rows * (depth / kBlock) * RowBlock::kBytesPerRow;
  }

  // `data`: BytesFor(rows, depth) bytes, aligned to 4. `weights`: format of the weights that the
  // rows will be multiplied with.
  QuantizedRows(std::uint8_t* data, std::size_t rows, std::size_t depth, WeightFormat weights)
      : data_(data), rows_(rows), blocks_(depth / kBlock), weights_(weights) {}

  std::size_t rows() const { return rows_; }
  std::size_t blocks() const { return blocks_; }
  // Returns the first block of the group that begins with row `first`, a multiple of kRowGroup.
  RowBlock Group(std::size_t first) const {
    return {.data = data_ + first * blocks_ * RowBlock::kBytesPerRow,
            .size = rows_ - first < kRowGroup ? rows_ - first : kRowGroup};
  }

  // Quantizes a row of `depth` values: each block is scaled by its largest magnitude to the range
  // -127 to 127 and rounded to nearest. Products with a block that holds infinity or NaN are NaN.
  // Needs AVX2. Thread: any; no two threads for the same row.
  void Set(std::size_t row, const float* values) const;

 private:
  std::uint8_t* data_;
  std::size_t rows_;
  std::size_t blocks_;
  WeightFormat weights_;
};

}  // namespace svc
