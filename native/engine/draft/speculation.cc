#include "engine/draft/speculation.h"

#include <algorithm>

namespace svc {
namespace {

// Minimum gain in tokens per millisecond: 5 %, above the prediction error.
constexpr double kLeastGain = 1.05;

}  // namespace

std::vector<std::uint32_t> ChooseDrafts(std::span<const Proposal> proposals,
                                        const DraftLimits& limits,
                                        const std::function<double(std::uint32_t rows)>& cost) {
  std::vector<std::uint32_t> chosen(proposals.size(), 0);
  std::vector<std::uint32_t> best = chosen;
  std::vector<double> reached;  // by proposal: probability that its last row so far is used
  reached.reserve(proposals.size());
  for (const Proposal& proposal : proposals) reached.push_back(proposal.trust);

  const auto sequences = static_cast<std::uint32_t>(proposals.size());
  // Greedy: drafts are added one by one, the most likely first; the best prefix of that order wins.
  const double plain = cost(sequences);
  double most_tokens_per_ms = kLeastGain * sequences / plain;
  double tokens = sequences;
  double drafting = 0;
  for (std::uint32_t rows = sequences + 1; rows <= limits.rows; ++rows) {
    // The most likely remaining draft; of equal ones, that of the proposal with fewer drafts so
    // far.
    std::size_t next = proposals.size();
    double likeliest = 0;
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      const Proposal& proposal = proposals[i];
      if (chosen[i] == proposal.drafts.size()) continue;
      const double chance = reached[i] * proposal.drafts[chosen[i]].chance * proposal.trust;
      if (chance < likeliest) continue;
      if (next < proposals.size() && chance == likeliest && chosen[i] >= chosen[next]) continue;
      likeliest = chance;
      next = i;
    }
    if (next == proposals.size()) break;
    // With a draft beside it, the sequence's own row is used only with probability `trust`, too.
    if (chosen[next] == 0) tokens -= 1 - proposals[next].trust;
    drafting += proposals[next].drafts[chosen[next]].cost;
    ++chosen[next];
    reached[next] = likeliest;
    tokens += likeliest;

    const double ms = cost(rows) + drafting;
    if (ms > std::max(limits.ms, plain) || tokens <= most_tokens_per_ms * ms) continue;
    most_tokens_per_ms = tokens / ms;
    best = chosen;
  }
  return best;
}

}  // namespace svc
