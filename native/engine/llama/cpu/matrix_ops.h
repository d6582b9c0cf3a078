// Operations on weights, as ggml calls them: products and look-ups.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "ggml-backend-impl.h"
#include "ggml-cpu/traits.h"
#include "kernels/half_matrix.h"
#include "kernels/matrix_kernel.h"
#include "kernels/weight_matrix.h"

namespace svc {

// Alignment of weights and of each thread's scratch memory, in bytes.
inline constexpr std::size_t kAlignment = 64;

using Operation = std::unique_ptr<ggml::cpu::tensor_traits>;

// The tensor as a matrix of ours; absent: it cannot be interleaved.
std::optional<WeightMatrix> MatrixOf(const ggml_tensor* tensor);

// Rows of activations times interleaved weights.
Operation NewProduct(const MatrixKernel& kernel);
// For each token id, one output row of interleaved weights.
Operation NewLookUp();
// Rows of activations times F16 weights in any buffer.
Operation NewHalfProduct(HalfKernel kernel);
// True if the half product computes this node of a graph.
bool TakesHalfProduct(const ggml_tensor* op);

}  // namespace svc
