// The arrays of a llama_batch, reused from one batch to the next to save allocations.
#pragma once

#include <cstdint>
#include <vector>

#include "llama.h"

namespace svc {

// Owner and thread: those of the context that computes the batch.
class BatchRows {
 public:
  void Clear();
  void Add(llama_token token, llama_pos position, llama_seq_id sequence, bool wants_logits);

  std::size_t size() const { return tokens_.size(); }
  // The rows as a llama_batch. Valid until the next call of Clear or Add.
  llama_batch Batch();

 private:
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> sequences_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace svc
