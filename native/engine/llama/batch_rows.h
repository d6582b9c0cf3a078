// The arrays of a llama_batch, reused from one batch to the next to save allocations.
#pragma once

#include <cstdint>
#include <vector>

#include "llama.h"

namespace svc {

// Owner and thread: those of the context that computes the batch.
class BatchRows {
 public:
  void Clear() {
    tokens_.clear();
    positions_.clear();
    sequences_.clear();
    wants_logits_.clear();
  }
  void Add(llama_token token, llama_pos position, llama_seq_id sequence, bool wants_logits) {
    tokens_.push_back(token);
    positions_.push_back(position);
    sequences_.push_back(sequence);
    wants_logits_.push_back(wants_logits ? 1 : 0);
  }

  std::size_t size() const { return tokens_.size(); }
  // The rows as a llama_batch. Valid until the next call of Clear or Add.
  llama_batch Batch() {
    sequence_counts_.assign(size(), 1);
    sequence_pointers_.resize(size());
    for (std::size_t i = 0; i < size(); ++i) sequence_pointers_[i] = &sequences_[i];
    return {.n_tokens = static_cast<std::int32_t>(size()),
            .token = tokens_.data(),
            .embd = nullptr,
            .pos = positions_.data(),
            .n_seq_id = sequence_counts_.data(),
            .seq_id = sequence_pointers_.data(),
            .logits = wants_logits_.data()};
  }

 private:
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> sequences_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace svc
