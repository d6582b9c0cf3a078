#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace svc {

// What one row of a batch attends to: of one head of keys and values, with all heads of queries
// that share it. Keys and values are half floats, a cell's lie together. Owns nothing.
struct Attention {
  // Floats of a key, a value, a query and an output.
  std::size_t head_length;
  std::size_t cells;
  const std::uint16_t* keys;
  std::size_t key_stride;  // from a cell to the next, in half floats
  const std::uint16_t* values;
  std::size_t value_stride;
  // One half float a cell, added to its scores; minus infinity: the row does not see the cell.
  // Null: it sees all.
  const std::uint16_t* mask;
  float scale;
  std::size_t heads;
  const float* queries;
  std::size_t query_stride;  // from a head to the next, in floats
  float* outputs;
  std::size_t output_stride;
};

// Only the cells that the row sees are read, a few at a time; sums are kept in single precision
// with the largest score so far (the online softmax of FlashAttention, arXiv 2205.14135), in the
// order of the cells: the result does not depend on other rows, nor, to the bit, on which kernel
// it is. All zeros if the row sees none. `scratch`: AttentionScratch. Thread: any, each with its
// own scratch.
using AttentionKernel = void (*)(const Attention& attention, std::uint8_t* scratch);

// Those that this processor can run, the fastest first. They need AVX2 at least.
std::span<const AttentionKernel> AttentionKernels();

// Whether they are for heads of this length.
bool CanAttend(std::size_t head_length);

// Bytes, to be aligned to 4, at most: for as many cells or less.
std::size_t AttentionScratch(std::size_t head_length, std::size_t heads, std::size_t cells);

// Floats that are computed together.
constexpr std::size_t kVectorLength = 16;
// Cells whose keys and values are in single precision at a time: those of heads of 64 stay in the
// first cache.
constexpr std::size_t kAttentionTile = 32;

// attention_avx512.cc, attention_avx2.cc
void AttendAvx512(const Attention& attention, std::uint8_t* scratch);
void AttendAvx2(const Attention& attention, std::uint8_t* scratch);

}  // namespace svc
