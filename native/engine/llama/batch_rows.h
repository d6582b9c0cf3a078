// The arrays of a llama_batch, reused from one batch to the next to save allocations.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "llama.h"

namespace svc {

// Owner and thread: those of the context that computes the batch.
class BatchRows {
 public:
  void Clear() {
    tokens_.clear();
    embeddings_.clear();
    positions_.clear();
    for (auto& positions : more_positions_) positions.clear();
    sequences_.clear();
    wants_logits_.clear();
  }
  void Add(llama_token token, llama_pos position, llama_seq_id sequence, bool wants_logits) {
    tokens_.push_back(token);
    AddPlace(position, sequence, wants_logits);
  }
  // `place`: one position, or four with M-RoPE. REQUIRES: the batch has no tokens.
  void AddEmbedding(std::span<const float> embedding, std::span<const llama_pos> place,
                    llama_seq_id sequence) {
    embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
    AddPlace(place.front(), sequence, /*wants_logits=*/false);
    for (std::size_t i = 1; i < place.size(); ++i) more_positions_[i - 1].push_back(place[i]);
  }

  std::size_t size() const { return positions_.size(); }
  // The rows as a llama_batch. Valid until the next call of Clear, Add or AddEmbedding.
  llama_batch Batch() {
    sequence_counts_.assign(size(), 1);
    all_positions_ = positions_;
    for (const auto& more : more_positions_) {
      all_positions_.insert(all_positions_.end(), more.begin(), more.end());
    }
    sequence_pointers_.resize(size());
    for (std::size_t i = 0; i < size(); ++i) sequence_pointers_[i] = &sequences_[i];
    return {.n_tokens = static_cast<std::int32_t>(size()),
            .token = embeddings_.empty() ? tokens_.data() : nullptr,
            .embd = embeddings_.empty() ? nullptr : embeddings_.data(),
            .pos = all_positions_.data(),
            .n_seq_id = sequence_counts_.data(),
            .seq_id = sequence_pointers_.data(),
            .logits = wants_logits_.data()};
  }

 private:
  void AddPlace(llama_pos position, llama_seq_id sequence, bool wants_logits) {
    positions_.push_back(position);
    sequences_.push_back(sequence);
    wants_logits_.push_back(wants_logits ? 1 : 0);
  }

  std::vector<llama_token> tokens_;
  std::vector<float> embeddings_;
  std::vector<llama_pos> positions_;
  std::array<std::vector<llama_pos>, 3> more_positions_;
  std::vector<llama_pos> all_positions_;
  std::vector<llama_seq_id> sequences_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

// Which rows of a batch are tokens, and their places among these.
class TokenRows {
 public:
  void Clear() {
    places_.clear();
    tokens_ = 0;
  }
  void Add(bool is_token) { places_.push_back(is_token ? tokens_++ : -1); }
  // Negative: the row at `index` is none.
  std::int32_t IndexOf(std::size_t index) const { return places_[index]; }

 private:
  std::vector<std::int32_t> places_;
  std::int32_t tokens_ = 0;
};

}  // namespace svc
