// A small graph of operations that our kernels take over, computed on one thread of the CPU
// backend, by the kernels that are registered at the time.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "ggml-cpp.h"

namespace svc {

// Shape of attention with one key/value head.
struct AttentionShape {
  std::int64_t head_length;
  std::int64_t heads;
  std::int64_t rows;
  std::int64_t cells;
};

class SampleGraph {
 public:
  SampleGraph();

  // Adds a product per weight type, and one with F16 weights.
  void AddProducts();
  // Adds attention; returns its mask.
  ggml_tensor* AddAttention(const AttentionShape& shape);

  // Allocates all tensors, quantized weights in a buffer of this type, and fills the inputs with
  // numbers in [-1, 1]. Call it once, after all operations are added. False if it fails.
  bool Allocate(ggml_backend_buffer_type_t weights);
  bool Compute();

  // Name and output of each operation; the names are static.
  const std::vector<std::pair<const char*, ggml_tensor*>>& results() const { return results_; }

 private:
  using Shape = std::array<std::int64_t, 3>;

  ggml_tensor* Input(const ggml_context_ptr& context, ggml_type type, const Shape& shape);

  const ggml_backend_ptr backend_;
  const ggml_context_ptr weights_;
  const ggml_context_ptr others_;
  ggml_backend_buffer_ptr weight_buffer_;
  ggml_backend_buffer_ptr other_buffer_;
  std::vector<ggml_tensor*> inputs_;
  std::vector<std::pair<const char*, ggml_tensor*>> results_;
  ggml_cgraph* nodes_ = nullptr;
};

}  // namespace svc
