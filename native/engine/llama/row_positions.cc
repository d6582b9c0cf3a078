#include "engine/llama/row_positions.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace svc {

llama_pos RowPositions::Of(SequenceId sequence, std::uint32_t index) const {
  std::uint32_t saved = 0;  // positions that the pictures before it do not take
  for (const Run& run : Before(sequence, index)) {
    if (index < run.begin + run.count) return static_cast<llama_pos>(run.begin - saved);
    saved += run.count - run.positions;
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
  Runs& runs = runs_[sequence];
  if (runs.empty() || runs.back().begin != media.begin) {
    runs.push_back({.begin = media.begin, .count = media.count, .positions = media.positions});
  }
  runs.back().done = std::max(runs.back().done, end - media.begin);
}

void RowPositions::Share(SequenceId from, SequenceId to, std::uint32_t end) {
  Add(to, Before(from, end));
}

void RowPositions::Cut(SequenceId sequence, llama_pos last) {
  const auto found = runs_.find(sequence);
  if (found == runs_.end()) return;
  llama_pos saved = 0;
  std::erase_if(found->second, [&](const Run& run) {
    if (static_cast<llama_pos>(run.begin) - saved > last) return true;
    saved += static_cast<llama_pos>(run.count - run.positions);
    return false;
  });
  if (found->second.empty()) runs_.erase(found);
}

std::size_t RowPositions::SizeOf(SequenceId sequence, std::uint32_t end) const {
  return Before(sequence, end).size_bytes();
}

void RowPositions::Save(SequenceId sequence, std::uint32_t end,
                        std::span<std::uint8_t> bytes) const {
  if (bytes.empty()) return;
  std::memcpy(bytes.data(), Before(sequence, end).data(), bytes.size());
}

bool RowPositions::Load(SequenceId sequence, std::span<const std::uint8_t> bytes,
                        std::uint32_t end) {
  if (bytes.size() % sizeof(Run) != 0) return false;
  Runs runs(bytes.size() / sizeof(Run));
  if (!runs.empty()) std::memcpy(runs.data(), bytes.data(), bytes.size());
  std::uint64_t free = 0;  // the first index behind the pictures so far
  for (const Run& run : runs) {
    const bool fits = run.begin >= free && run.positions <= run.count && run.done <= run.count;
    free = std::uint64_t{run.begin} + run.count;
    if (!fits || free > std::numeric_limits<llama_pos>::max()) return false;
  }
  std::erase_if(runs, [&](const Run& run) { return run.begin >= end; });
  Add(sequence, runs);
  return true;
}

std::span<const RowPositions::Run> RowPositions::Before(SequenceId sequence,
                                                        std::uint32_t end) const {
  const auto found = runs_.find(sequence);
  if (found == runs_.end()) return {};
  const Runs& runs = found->second;
  const auto behind = std::ranges::find_if(runs, [&](const Run& run) { return run.begin >= end; });
  return {runs.begin(), behind};
}

// A picture that the sequence has already stays as it is.
void RowPositions::Add(SequenceId sequence, std::span<const Run> runs) {
  if (runs.empty()) return;
  Runs& own = runs_[sequence];
  for (const Run& run : runs) {
    const auto place = std::ranges::lower_bound(own, run.begin, {}, &Run::begin);
    if (place == own.end() || place->begin != run.begin) own.insert(place, run);
  }
}

}  // namespace svc
