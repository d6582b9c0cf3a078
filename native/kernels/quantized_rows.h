#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace svc {

// Rows that share each load of weights, at most.
constexpr std::size_t kRowGroup = 8;

// kBlock values of each row of a group: [row][kBlock] signed bytes, then [row] scales, then
// [2][row] offsets, then [row] sums.
struct RowBlock {
  static constexpr std::size_t kBytesPerRow = kBlock + 2 * sizeof(float) + 2 * sizeof(std::int32_t);

  std::uint8_t* data;
  // Rows in the group.
  std::size_t size;

  std::uint8_t* values(std::size_t row) const { return data + row * kBlock; }
  float* scales() const { return reinterpret_cast<float*>(data + size * kBlock); }
  // What turns a sum of quants times values into one of weights, less their scales: minus the sum
  // of the values times the quant that stands for zero. Of the whole block, or of each half where
  // these have a scale of their own.
  std::int32_t* offsets(std::size_t half) const {
    return reinterpret_cast<std::int32_t*>(scales() + size) + half * size;
  }
  // Of the block's values, scaled, for weights that have mins.
  float* sums() const { return reinterpret_cast<float*>(offsets(2)); }
  RowBlock next() const { return {.data = data + size * kBytesPerRow, .size = size}; }
};

// Rows of activations, as bytes with a scale for each kBlock of them. Those of a group lie
// together, so that a kernel reads along one pointer: [group][block]. Owns nothing.
class QuantizedRows {
 public:
  static std::size_t BytesFor(std::size_t rows, std::size_t depth) {
    return rows * (depth / kBlock) * RowBlock::kBytesPerRow;
  }

  // `data`: BytesFor, aligned to 4 bytes. `weights`: those that they are to be multiplied with.
  QuantizedRows(std::uint8_t* data, std::size_t rows, std::size_t depth, WeightFormat weights)
      : data_(data), rows_(rows), blocks_(depth / kBlock), weights_(weights) {}

  std::size_t rows() const { return rows_; }
  std::size_t blocks() const { return blocks_; }
  // The first block of the group that begins with row `first`, a multiple of kRowGroup.
  RowBlock Group(std::size_t first) const {
    return {.data = data_ + first * blocks_ * RowBlock::kBytesPerRow,
            .size = rows_ - first < kRowGroup ? rows_ - first : kRowGroup};
  }

  // Fills a row from its `depth` values, each rounded to the nearest of 255 between the least and
  // the most that its block can hold. Needs AVX2. Thread: any, one a row.
  void Set(std::size_t row, const float* values) const;

 private:
  std::uint8_t* data_;
  std::size_t rows_;
  std::size_t blocks_;
  WeightFormat weights_;
};

}  // namespace svc
