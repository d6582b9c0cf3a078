// Attention, as ggml calls it.
#pragma once

#include "engine/llama/cpu/operation.h"
#include "kernels/kernels.h"

namespace svc {

// Each row of queries attends to its visible cells.
Operation NewAttention(const Kernels& kernels);
// True if the operation computes this node of a graph.
bool TakesAttention(const ggml_tensor* op);

}  // namespace svc
