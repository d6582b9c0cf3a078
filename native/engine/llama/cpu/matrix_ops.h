// Operations on weights, as ggml calls them: products and look-ups.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "engine/llama/cpu/operation.h"
#include "kernels/kernels.h"

namespace svc {

// The types that our kernels multiply with, by ggml's names and ours.
inline constexpr std::array kGgmlTypes = {
    std::pair{GGML_TYPE_Q4_0, WeightType::kQ4_0}, std::pair{GGML_TYPE_Q5_0, WeightType::kQ5_0},
    std::pair{GGML_TYPE_Q8_0, WeightType::kQ8_0}, std::pair{GGML_TYPE_Q4_K, WeightType::kQ4K},
    std::pair{GGML_TYPE_Q5_K, WeightType::kQ5K},  std::pair{GGML_TYPE_Q6_K, WeightType::kQ6K}};
static_assert(kGgmlTypes.size() == kWeightTypes);

// The tensor as a matrix of ours; absent: it cannot be interleaved.
std::optional<WeightMatrix> MatrixOf(const ggml_tensor* tensor);

// Rows of activations times interleaved weights.
Operation NewProduct(const Kernels& kernels);
// For each token id, one output row of interleaved weights.
Operation NewLookUp();
// Rows of activations times F16 weights in any buffer.
Operation NewHalfProduct(const Kernels& kernels);
// True if the half product computes this node of a graph.
bool TakesHalfProduct(const ggml_tensor* op);

}  // namespace svc
