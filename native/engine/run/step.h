// One step of the loop: the batch, and which rows of it belong to which generation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/run/generation.h"

namespace svc {

// Rows of one generation in the batch.
struct StepPart {
  Generation* generation;
  std::uint32_t rows;        // without drafts
  std::size_t last_row;      // index of the last of them
  std::uint32_t drafts = 0;  // number of draft tokens in the rows behind last_row
  bool by_model = false;     // true if the draft model made these drafts
};

// Owner and thread: the Loop. Planned by Loop::Plan, extended by DraftRound and Padding.
struct Step {
  std::vector<StepPart> parts;
  std::vector<Row> rows;      // of the parts, then `padding` rows. Empty: the step is the lane's.
  std::uint32_t padding = 0;  // rows at the end without a generation
  std::vector<GenerationId> planned;  // generations that the step computes for

  void Clear() {
    parts.clear();
    rows.clear();
    padding = 0;
    planned.clear();
  }

  // Adds the next `count` tokens of the generation.
  void Add(Generation& generation, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t position = generation.computed + i;
      rows.push_back({.token = generation.tokens[position],
                      .position = static_cast<std::int32_t>(position),
                      .sequence = generation.sequence,
                      .wants_logits = position + 1 == generation.tokens.size(),
                      .media = MediaAt(generation.media, position)});
    }
    parts.push_back({.generation = &generation, .rows = count, .last_row = rows.size() - 1});
    planned.push_back(generation.id);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(rows.size()); }
  // Number of rows whose logits are computed.
  std::uint32_t outputs() const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(rows, [](const Row& row) { return row.wants_logits; }));
  }
  // True if rows of a picture or sound are among them.
  bool HasMedia() const {
    return std::ranges::any_of(rows, [](const Row& row) { return row.media != nullptr; });
  }
  bool HasDrafts() const {
    return std::ranges::any_of(parts, [](const StepPart& p) { return p.drafts > 0; });
  }
};

}  // namespace svc
