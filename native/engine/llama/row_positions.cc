#include "engine/llama/row_positions.h"

#include <algorithm>

namespace svc {

llama_pos RowPositions::Of(SequenceId sequence, std::uint32_t index) const {
  std::uint32_t saved = 0;  // positions that the pictures before it do not take
  if (const auto found = runs_.find(sequence); found != runs_.end()) {
    for (const Run& run : found->second) {
      if (index < run.begin) break;
      if (index < run.begin + run.count) return static_cast<llama_pos>(run.begin - saved);
      saved += run.count - run.positions;
    }
  }
  return static_cast<llama_pos>(index - saved);
}

std::uint32_t RowPositions::Next(SequenceId sequence, llama_pos last) const {
  const auto next = static_cast<std::uint32_t>(last + 1);
  std::uint32_t saved = 0;
  if (const auto found = runs_.find(sequence); found != runs_.end()) {
    for (const Run& run : found->second) {
      const std::uint32_t first = run.begin - saved;
      if (next <= first) break;
      if (run.done < run.count || next < first + run.positions) return run.begin + run.done;
      saved += run.count - run.positions;
    }
  }
  return next + saved;
}

void RowPositions::Computed(SequenceId sequence, const MediaRows& media, std::uint32_t end) {
  if (!media.has_own_positions()) return;
  std::vector<Run>& runs = runs_[sequence];
  if (runs.empty() || runs.back().begin != media.begin) {
    runs.push_back({.begin = media.begin, .count = media.count, .positions = media.positions});
  }
  runs.back().done = std::max(runs.back().done, end - media.begin);
}

void RowPositions::Cut(SequenceId sequence, std::uint32_t begin) {
  const auto found = runs_.find(sequence);
  if (found == runs_.end()) return;
  // A picture is cut as a whole: all its rows have the same position.
  std::erase_if(found->second, [&](const Run& run) { return run.begin + run.done > begin; });
  if (found->second.empty()) runs_.erase(found);
}

}  // namespace svc
