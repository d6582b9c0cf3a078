#include "engine/scheduler.h"

#include <algorithm>

namespace svc {
namespace {

constexpr std::uint32_t kRowGroup = 4;

}  // namespace

std::vector<Share> PlanStep(std::span<const Demand> demands, const StepLimits& limits) {
  const std::uint32_t capacity = std::min(limits.rows, limits.cells);
  const auto decoding = static_cast<std::uint32_t>(
      std::count_if(demands.begin(), demands.end(), [](const Demand& d) { return d.rows == 1; }));
  const std::uint32_t decode_rows = std::min(decoding, capacity);

  std::uint32_t prompt_rows = capacity - decode_rows;
  if (decoding > 0) {
    const std::uint32_t wanted = decode_rows + limits.prompt_rows_beside_decoding;
    prompt_rows = std::min(prompt_rows, wanted - wanted % kRowGroup - decode_rows);
  }

  std::vector<Share> shares;
  std::uint32_t decode_left = decode_rows;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    std::uint32_t& left = demands[i].rows == 1 ? decode_left : prompt_rows;
    const std::uint32_t rows = std::min(left, demands[i].rows);
    if (rows == 0) continue;
    shares.push_back({.index = i, .rows = rows});
    left -= rows;
  }
  return shares;
}

}  // namespace svc
