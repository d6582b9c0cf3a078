// Keeps the log probabilities of the tokens of the text apart from those of reasoning and calls,
// which an AnswerReader finds in the same answer.
#pragma once

#include <vector>

#include "engine/types/output.h"

namespace svc {

// Owner: one Generation. Not thread-safe.
class TextLogprobs {
 public:
  // Of tokens that the reader has got, in order.
  void Add(std::vector<TokenLogprobs> read);
  // Moves those of *output's text to *output, and drops those of its reasoning and calls. Keeps
  // those of text that the reader holds back. REQUIRES: the reader has made *output of the added
  // tokens.
  void MoveTo(GenerationOutput* output);

 private:
  std::vector<TokenLogprobs> waiting_;
};

}  // namespace svc
