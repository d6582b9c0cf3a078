// Positions of the rows of each sequence, as libllama has them. A row's position is its index,
// except behind pictures of a model with M-RoPE: all rows of such a picture are at the same time,
// so the rows behind it have smaller positions than indices.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/model/decoder.h"
#include "llama.h"

namespace svc {

// Owner and thread: the decoder's.
class RowPositions {
 public:
  // Position of the row at `index`; of a picture's row, the one of its first row.
  llama_pos Of(SequenceId sequence, std::uint32_t index) const;
  // Index of the sequence's next row, if `last` is its largest position; -1: it has none.
  std::uint32_t Next(SequenceId sequence, llama_pos last) const;

  // Notes that the rows of `media` before index `end` are in the cache.
  void Computed(SequenceId sequence, const MediaRows& media, std::uint32_t end);
  // Forgets the rows from index `begin` on.
  void Cut(SequenceId sequence, std::uint32_t begin);
  void Clear() { runs_.clear(); }

 private:
  struct Run {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t positions = 0;
    std::uint32_t done = 0;  // rows in the cache
  };

  std::map<SequenceId, std::vector<Run>> runs_;  // in their order
};

}  // namespace svc
