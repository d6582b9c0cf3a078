#include "engine/model/largest_logits.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace svc {
namespace {

constexpr std::size_t kBlock = 16;

// True for NaN and positive infinity.
bool IsBroken(float logit) { return !(logit < INFINITY); }

// Calls `visit` with the allowed tokens in order. Without `allowed`, skips blocks whose logits are
// all below `threshold` (reread for each block); a block with a NaN is never skipped.
template <typename Visit>
void ForEachAbove(std::span<const float> logits, const TokenSet* allowed, const float& threshold,
                  Visit visit) {
  if (allowed != nullptr) {
    for (std::size_t word = 0; word < allowed->words().size(); ++word) {
      for (std::uint64_t bits = allowed->words()[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
    return;
  }
  std::size_t at = 0;
  for (; at + kBlock <= logits.size(); at += kBlock) {
    unsigned above = 0;
    for (std::size_t i = 0; i < kBlock; ++i) above |= logits[at + i] < threshold ? 0U : 1U;
    if (above == 0) continue;
    for (std::size_t i = 0; i < kBlock; ++i) visit(at + i);
  }
  for (; at < logits.size(); ++at) visit(at);
}

}  // namespace

Token LargestLogit(std::span<const float> logits, const TokenSet* allowed) {
  Token token = kNoToken;
  float largest = -INFINITY;
  bool broken = false;
  ForEachAbove(logits, allowed, largest, [&](std::size_t i) {
    broken |= IsBroken(logits[i]);
    if (token >= 0 && !(logits[i] > largest)) return;
    token = static_cast<Token>(i);
    largest = logits[i];
  });
  return broken ? kBrokenLogits : token;
}

Ranking LargestLogits(std::span<const float> logits, const TokenSet* allowed, std::size_t count,
                      std::vector<RankedToken>* ranked) {
  // Keeps one more than requested, to detect a tie with the last; a heap with the smallest on top.
  const auto larger = [](const RankedToken& a, const RankedToken& b) { return a.logit > b.logit; };
  ranked->clear();
  float threshold = -INFINITY;
  bool broken = false;
  ForEachAbove(logits, allowed, threshold, [&](std::size_t i) {
    const float logit = logits[i];
    if (IsBroken(logit)) {
      broken = true;
      return;
    }
    if (ranked->size() <= count) {
      ranked->push_back({static_cast<Token>(i), logit});
      std::ranges::push_heap(*ranked, larger);
    } else if (logit > threshold) {
      std::ranges::pop_heap(*ranked, larger);
      ranked->back() = {static_cast<Token>(i), logit};
      std::ranges::push_heap(*ranked, larger);
    } else {
      return;
    }
    if (ranked->size() > count) threshold = ranked->front().logit;
  });
  if (broken) {
    ranked->clear();
    return Ranking::kBroken;
  }
  std::ranges::sort_heap(*ranked, larger);
  bool distinct = true;
  for (std::size_t i = 1; i < ranked->size(); ++i) {
    if (!((*ranked)[i - 1].logit > (*ranked)[i].logit)) distinct = false;
  }
  if (ranked->size() > count) ranked->pop_back();
  return distinct ? Ranking::kDistinct : Ranking::kTied;
}

}  // namespace svc
