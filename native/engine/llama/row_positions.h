// Positions of the rows of each sequence, as libllama has them. A row's position is its index,
// except behind pictures of a model with M-RoPE: all rows of such a picture are at the same time,
// so the rows behind it have smaller positions than indices.
//
// A sequence that has only a part of a text's cells (a node of the prefix cache) knows the pictures
// before that part, too, since its positions depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
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
  // Notes that `to` has the same text as `from` before index `end`.
  void Share(SequenceId from, SequenceId to, std::uint32_t end);
  // Forgets the pictures behind position `last`, the sequence's largest; -1: it has none left.
  void Cut(SequenceId sequence, llama_pos last);
  void Clear() { runs_.clear(); }

  // Size of what Save writes.
  std::size_t SizeOf(SequenceId sequence, std::uint32_t end) const;
  // Writes down the pictures before index `end`. REQUIRES: bytes.size() is SizeOf.
  void Save(SequenceId sequence, std::uint32_t end, std::span<std::uint8_t> bytes) const;
  // Notes that the sequence has the saved pictures, as far as they are before index `end`. False:
  // they are damaged, and nothing is noted.
  bool Load(SequenceId sequence, std::span<const std::uint8_t> bytes, std::uint32_t end);

 private:
  struct Run {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t positions = 0;
    std::uint32_t done = 0;  // rows in the cache
  };
  using Runs = std::vector<Run>;  // in their order

  // Those that begin before index `end`.
  std::span<const Run> Before(SequenceId sequence, std::uint32_t end) const;
  void Add(SequenceId sequence, std::span<const Run> runs);

  std::map<SequenceId, Runs> runs_;
};

}  // namespace svc
