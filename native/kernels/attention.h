#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Inputs and output of attention for one batch row and one key/value head, with all query heads
// that share that head. Keys and values are half floats, contiguous within a cell. Non-owning.
struct Attention {
  // Elements per key, value, query and output.
  std::size_t head_length;
  std::size_t cells;
  const std::uint16_t* keys;
  std::size_t key_stride;  // half floats from one cell to the next
  const std::uint16_t* values;
  std::size_t value_stride;
  // One half float per cell, added to the cell's scores; minus infinity hides the cell from the
  // row. Null: the row sees all cells.
  const std::uint16_t* mask;
  float scale;
  std::size_t heads;
  const float* queries;
  std::size_t query_stride;  // floats from one head to the next
  float* outputs;
  std::size_t output_stride;
};

// Reads only the cells that the row sees, kAttentionTile at a time, in cell order. Keeps
// single-precision sums and the largest score so far (the online softmax of FlashAttention,
// arXiv 2205.14135). The result is bit-identical for every kernel and whatever the other rows are;
// all zeros if the row sees no cell. `scratch`: AttentionScratch() bytes. Thread: any, each with
// its own scratch.
using AttentionKernel = void(const Attention& attention, std::uint8_t* scratch);

// True if the kernels support heads of this length.
bool CanAttend(std::size_t head_length);

// Returns the scratch size in bytes for up to `cells` cells. Alignment: 4 bytes.
std::size_t AttentionScratch(std::size_t head_length, std::size_t heads, std::size_t cells);

// Floats per vector.
constexpr std::size_t kVectorLength = 16;
// Cells whose keys and values are converted to single precision at a time. With heads of 64
// elements they fit into the L1 data cache.
constexpr std::size_t kAttentionTile = 32;

// attention_avx512.cc, attention_avx2.cc
AttentionKernel AttendAvx512;
AttentionKernel AttendAvx2;

}  // namespace svc
