#pragma once

#include <string>

#include "kernels/kernels.h"

namespace svc {

// Registers our CPU kernels with ggml's CPU module: a buffer type with kernels for model weights,
// and kernels for attention over an F16 cache. The module keeps its own beside them. Returns them,
// and takes ggml's AMX products out of the module. Null, with the module's own kernels in use: this
// processor lacks the instructions, the module is of another version or has no place to register,
// or a self-test fails, with a warning in the log. REQUIRES: the first call comes after the
// backends are loaded and before any model is.
const Kernels* UseOwnKernels();

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
