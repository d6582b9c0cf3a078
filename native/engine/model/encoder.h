// Encoder: the narrow interface between the embedder and a model. It computes one vector for each
// input; for a model that ranks, a vector of one number, the score. Implemented by llama_encoder.h
// and, for tests, native/test/support/fake_encoder.h.
//
// Owner: the Embedder. Thread: the embedder's only; the size getters any.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"

namespace svc {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Computes the inputs in one batch. `vectors` becomes inputs.size() * length() floats in the
  // order of the inputs; each vector has Euclidean length 1, a score is finite. `abort` may be set
  // by another thread at any time; it is honoured where the device allows it. REQUIRES: 1 to
  // max_inputs() inputs of 1 to max_tokens() tokens each; together at most batch_tokens() unless
  // there is only one. Errors: kCancelled (aborted), kOutOfMemory, kInternal.
  virtual Status Encode(std::span<const std::span<const Token>> inputs,
                        const std::atomic<bool>& abort, std::vector<float>* vectors) = 0;

  virtual std::uint32_t length() const = 0;        // floats in a vector
  virtual std::uint32_t max_tokens() const = 0;    // in one input
  virtual std::uint32_t max_inputs() const = 0;    // in one batch
  virtual std::uint32_t batch_tokens() const = 0;  // of all inputs in one batch
};

}  // namespace svc
