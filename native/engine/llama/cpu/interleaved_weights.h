// Model weights in the layout of our matrix kernels. Only where there are some
// (SVC_MATRIX_KERNELS).
#pragma once

#include <string>

#include "ggml-backend.h"

namespace svc {

// Buffer type with ggml's hooks: weights that are loaded into it are interleaved, and our kernels
// compute the operations on them; also products with F16 weights, in whatever buffer those are.
// Never destroyed. REQUIRES: SupportedKernels() is not empty.
ggml_backend_buffer_type_t InterleavedWeights();

// True if our kernels take every matrix of the file, including a token-embedding matrix that is
// also the output matrix. Then no weights are used where they are mapped, and the file need not be
// mapped. False if the file cannot be read, is part of a split model, or has other lookup tables.
bool TakeAllOf(const std::string& path);

// RAII, per thread. While alive with `are_wanted`, a model loaded on this thread gets its
// token-embedding matrix copied to memory in our kernels' layout (one copy if it is also the output
// matrix). Otherwise it stays in the mapped file, of which few pages are touched.
class EmbeddingsInMemory {
 public:
  explicit EmbeddingsInMemory(bool are_wanted);
  ~EmbeddingsInMemory();
  EmbeddingsInMemory(const EmbeddingsInMemory&) = delete;
  EmbeddingsInMemory& operator=(const EmbeddingsInMemory&) = delete;
};

}  // namespace svc
