#pragma once

#include <string>

#include "kernels/matrix_kernel.h"

namespace svc {

// From now on, ggml's processor module takes kernels of ours: for the weights of models, which go
// into a buffer type that the module then knows beside its own, and for attention to a cache of
// half floats. Call it first when the backends are loaded and no model is yet. Returns the kernel
// of the weights; null, and nothing is changed: this processor lacks the instructions, or the
// module does not let us in.
const MatrixKernel* UseOwnKernels();

// Whether they take all matrices of a file: also the one of token embeddings, with which the model
// multiplies in the end, because it has no other. Then nothing is left to be used where it is
// mapped. False for what cannot be read, for parts of a model, and where more is looked up.
bool TakeAllOf(const std::string& path);

// Of a model that this thread loads while it lives: whether a matrix in which tokens are looked up
// comes to memory, laid out for our kernels, too, and not twice if it is also multiplied with. Of a
// file that stays mapped few pages of it are ever needed.
class EmbeddingsInMemory {
 public:
  explicit EmbeddingsInMemory(bool are_wanted);
  ~EmbeddingsInMemory();
  EmbeddingsInMemory(const EmbeddingsInMemory&) = delete;
  EmbeddingsInMemory& operator=(const EmbeddingsInMemory&) = delete;
};

}  // namespace svc
