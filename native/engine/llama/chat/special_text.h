// Text that a vocabulary turns into control tokens, and how to keep what people say from doing so.
//
// A chat template writes control tokens as text ("<|im_end|>"), and the tokenizer recognises them
// in the rendered prompt, wherever they come from. A message that holds such text would end its own
// turn and speak as the system. So a message is guarded before it is rendered: a character that
// occurs nowhere else, the guard, is put before everything in it that reads like a control token.
// Templates treat it as any other character. In the rendered prompt, control text behind a guard is
// plain text; the guards are taken out again before the words around them are tokenized.
//
// The template's own text and a message may also read like a control token together, half and half:
// a message that begins with what could be such a half, or ends with one, gets a guard before it.
//
// Most messages need no guard, and then the prompt is tokenized in one go. Otherwise Tokenize()
// splits the prompt at special tokens in the very way llama.cpp does (longest first; the white
// space some of them eat), leaving out the guarded ones, and tokenizes what lies between.
//
// User-defined tokens ("<think>" in many models) are no control tokens; llama.cpp recognises them
// in any text, and so does this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/llama_model.h"

namespace svc {

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class SpecialText {
 public:
  explicit SpecialText(const LlamaModel& model);

  // Whether `text`, put into a prompt, could become or complete a control token.
  bool NeedsGuard(std::string_view text) const { return !GuardPoints(text).empty(); }

  // A character that none of the texts holds. Empty if they hold all 256 candidates.
  static std::string ChooseGuard(const std::vector<std::string_view>& texts);

  std::string Guard(std::string_view text, std::string_view guard) const;

  // The tokens of a prompt with guarded parts; BOS and EOS as the model asks, as in
  // LlamaModel::Tokenize(prompt, add_special = true, parse_special = true, context_length).
  Result<std::vector<Token>> Tokenize(std::string_view prompt, std::string_view guard,
                                      std::uint32_t context_length = 0) const;

 private:
  struct Special {
    Token token;
    std::string text;
    bool control;  // or unknown: what a message must not become
    bool strips_left;
    bool strips_right;
  };
  struct Fragment {
    Token token;            // negative: text
    std::string_view text;  // of the prompt, guards included
  };

  // Offsets into `text`, ascending.
  std::vector<std::size_t> GuardPoints(std::string_view text) const;
  bool ControlTextAt(std::string_view text, std::size_t at) const;
  void Split(const Special& special, std::string_view guard, std::string_view text,
             std::vector<Fragment>* fragments) const;

  const LlamaModel& model_;
  std::vector<Special> specials_;  // the longest text first
  // Control texts by their first byte, so that a scan looks at few.
  std::vector<std::vector<std::string_view>> control_by_first_byte_;
};

}  // namespace svc
