#include "engine/llama/thinking.h"

#include <limits>

#include "reasoning-budget.h"

namespace svc {
namespace {

constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

}  // namespace

Thinking::Thinking(const llama_vocab* vocab, const ThinkingTags& tags, bool is_open,
                   std::optional<std::uint32_t> budget)
    : sampler_(
          common_reasoning_budget_init(vocab, {tags.start}, tags.ends, tags.ends.front(),
                                       budget ? static_cast<std::int32_t>(*budget) : kNoLimit,
                                       is_open ? REASONING_BUDGET_COUNTING : REASONING_BUDGET_IDLE),
          llama_sampler_free),
      start_(tags.start),
      forced_(tags.ends.front()) {}

bool Thinking::is_open() const {
  const auto state = common_reasoning_budget_get_state(sampler_.get());
  return state != REASONING_BUDGET_IDLE && state != REASONING_BUDGET_DONE;
}

std::optional<Token> Thinking::Forced() const {
  if (common_reasoning_budget_get_state(sampler_.get()) != REASONING_BUDGET_FORCING) return {};
  return forced_[next_forced_];
}

void Thinking::Accept(Token token) {
  const bool is_forced = Forced().has_value();
  llama_sampler_accept(sampler_.get(), token);
  next_forced_ = is_forced && Forced() ? next_forced_ + 1 : 0;
}

std::vector<Token> Thinking::EndTag() const {
  const llama_tokens* tokens = common_reasoning_budget_get_end_match(sampler_.get());
  return tokens != nullptr ? *tokens : std::vector<Token>{};
}

}  // namespace svc
