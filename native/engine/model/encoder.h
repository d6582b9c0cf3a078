// The narrow interface between the embedder and a model: tokens in, one vector for each input out.
// llama_encoder.h is the real one, native/test/support/fake_encoder.h the other.
//
// Owner: the Embedder. Thread: the embedder's only; the figures from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/request.h"

namespace svc {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Computes the inputs together: `vectors` becomes inputs.size() times length() floats, in the
  // order of the inputs, each vector of Euclidean length 1.
  // REQUIRES: 1 to max_inputs() inputs of 1 to max_tokens() tokens each, together no more than
  // batch_tokens() unless there is but one.
  // `abort` may be set by another thread at any time; it is honoured where the device allows it.
  // Errors: kCancelled (aborted), kOutOfMemory, kInternal.
  virtual Status Encode(std::span<const std::span<const Token>> inputs,
                        const std::atomic<bool>& abort, std::vector<float>* vectors) = 0;

  virtual std::uint32_t length() const = 0;        // floats of a vector
  virtual std::uint32_t max_tokens() const = 0;    // of one input
  virtual std::uint32_t max_inputs() const = 0;    // of one batch
  virtual std::uint32_t batch_tokens() const = 0;  // of all inputs that share a batch
};

}  // namespace svc
