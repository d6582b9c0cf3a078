#pragma once

#include <cstddef>

#include "kernels/quantized_rows.h"
#include "kernels/weight_matrix.h"

namespace svc {

// Multiplies weights with rows of activations: computes panel `panel`, kPanel outputs from
// kPanel * panel on, for a group of rows. `rows`: the group's first block. out[r] receives the
// panel's outputs of row r. A weight is loaded once for all rows of a group, so eight rows cost
// little more than the memory traffic of one. A row's result is bit-identical for every kernel and
// whatever the other rows are. Thread: any.
using MultiplyPanel = void(const WeightMatrix& matrix, std::size_t panel, RowBlock rows,
                           float* const* out);

// Bytes ahead that kernels prefetch weights. With several rows per weight the hardware prefetcher
// does not keep up (eight rows of a 0.5B model: 31 ms without, 20 ms with).
constexpr std::size_t kPrefetchBytes = 4096;

// matrix_kernel_avx512.cc, matrix_kernel_avx2.cc
MultiplyPanel* MultiplyAvx512(WeightType type);
MultiplyPanel* MultiplyAvx2(WeightType type);

}  // namespace svc
