#include "engine/llama/batch_rows.h"

namespace svc {

void BatchRows::Clear() {
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  wants_logits_.clear();
}

void BatchRows::Add(llama_token token, llama_pos position, llama_seq_id sequence,
                    bool wants_logits) {
  tokens_.push_back(token);
  positions_.push_back(position);
  sequences_.push_back(sequence);
  wants_logits_.push_back(wants_logits ? 1 : 0);
}

llama_batch BatchRows::Batch() {
  sequence_counts_.assign(size(), 1);
  sequence_pointers_.resize(size());
  for (std::size_t i = 0; i < size(); ++i) sequence_pointers_[i] = &sequences_[i];
  llama_batch batch{};
  batch.n_tokens = static_cast<std::int32_t>(size());
  batch.token = tokens_.data();
  batch.pos = positions_.data();
  batch.n_seq_id = sequence_counts_.data();
  batch.seq_id = sequence_pointers_.data();
  batch.logits = wants_logits_.data();
  return batch;
}

}  // namespace svc
