#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

// Inputs and output of attention for some batch rows and one key/value head, with all query heads
// that share that head. Keys and values are half floats, contiguous within a cell. Non-owning.
struct Attention {
  // Elements per key, value, query and output.
  std::size_t head_length;
  std::size_t cells;
  const std::uint16_t* keys;
  std::size_t key_stride;  // half floats from one cell to the next
  const std::uint16_t* values;
  std::size_t value_stride;
  // For each row one half float per cell, added to the cell's scores; minus infinity hides the cell
  // from the row. Null: the rows see all cells.
  const std::uint16_t* mask;
  std::size_t mask_stride;  // half floats from one row to the next
  float scale;
  std::size_t rows;  // at most kAttentionRows
  std::size_t heads;
  const float* queries;
  std::size_t query_row_stride;  // floats from one row to the next
  std::size_t query_stride;      // floats from one head to the next
  float* outputs;
  std::size_t output_row_stride;
  std::size_t output_stride;
};

// Reads only the cells that a row sees, AttentionTile() at a time, in cell order. Keeps
// single-precision sums and the largest score so far (the online softmax of FlashAttention,
// arXiv 2205.14135). Rows of one text share each converted tile: the cells that a row sees begin
// with those of the row before it. The result of a row is bit-identical for every kernel, and does
// not depend on the other rows; all zeros if it sees no cell. `scratch`: AttentionScratch() bytes.
// Thread: any, each with its own scratch.
using AttentionKernel = void(const Attention& attention, std::uint8_t* scratch);

// True if the kernels support heads of this length.
bool CanAttend(std::size_t head_length);

// Most rows that are computed at a time. Reading a tile from memory and converting it costs as much
// as two to four heads' work with it.
constexpr std::size_t kAttentionRows = 16;

// Returns the scratch size in bytes for up to `rows` rows and `cells` cells. Alignment: 4 bytes.
std::size_t AttentionScratch(std::size_t head_length, std::size_t rows, std::size_t heads,
                             std::size_t cells);

// Floats per vector.
constexpr std::size_t kVectorLength = 16;
// Cells whose keys, and then values, are converted to single precision at a time. They are read
// again for each row and head, so they should stay in the L1 data cache: with AVX-512 heads of 256
// elements took 0.6 of the time with 16 cells that they took with 32.
constexpr std::size_t AttentionTile(std::size_t head_length) { return head_length > 128 ? 16 : 32; }

// attention_avx512.cc, attention_avx2.cc; attention_neon.cc
AttentionKernel AttendAvx512;
AttentionKernel AttendAvx2;
AttentionKernel AttendNeon;

}  // namespace svc
