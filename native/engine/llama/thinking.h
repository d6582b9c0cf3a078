// Follows a generation's reasoning: where it begins and ends, and how many tokens it may take.
//
// Over llama.cpp's sampler for reasoning budgets (common/reasoning-budget.h), which recognizes the
// template's tags as token sequences. Once the budget is used up, the tokens of the end tag are
// forced, so that the answer follows in the template's own form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "llama.h"

namespace svc {

struct ThinkingTags {
  std::vector<Token> start;              // not empty
  std::vector<std::vector<Token>> ends;  // not empty; the first one is forced
};

// Owner: one generation's sampler.
class Thinking {
 public:
  // is_open: the prompt has opened the reasoning. `budget`: most tokens of reasoning; absent: no
  // limit. The vocabulary must outlive it.
  Thinking(const llama_vocab* vocab, const ThinkingTags& tags, bool is_open,
           std::optional<std::uint32_t> budget);

  // True inside the reasoning, its end tag included.
  bool is_open() const;
  // True if the token is the start tag. Tags of several tokens are not recognized here, since their
  // first one may begin anything.
  bool Begins(Token token) const { return start_ == std::vector<Token>{token}; }
  // Token that must follow, because the budget is used up. REQUIRES: Accept is called with it.
  std::optional<Token> Forced() const;
  // Advances by a token of the answer.
  void Accept(Token token);
  // Tokens of the end tag that was accepted last; none before.
  std::vector<Token> EndTag() const;

 private:
  std::unique_ptr<llama_sampler, decltype(&llama_sampler_free)> sampler_;
  const std::vector<Token> start_;
  const std::vector<Token> forced_;
  std::size_t next_forced_ = 0;
};

}  // namespace svc
