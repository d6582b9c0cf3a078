// Keeps message text from becoming control tokens.
//
// A chat template writes control tokens as text ("<|im_end|>"), and the tokenizer recognizes them
// anywhere in the rendered prompt. A message with such text could end its own turn and speak as the
// system. So messages are guarded before rendering: a character that occurs in no message, the
// guard, is inserted before everything that reads like a control token. Templates treat it as any
// other character. In the rendered prompt, control-token text after a guard is plain text; the
// guards are removed before the text around them is tokenized.
//
// The template's text and a message may also form a control token together, one half each. So a
// guard is also inserted before a beginning or an end of a message that could be such a half.
//
// Most messages need no guard, and the prompt is tokenized in one call. Otherwise Tokenize() splits
// the prompt at special tokens exactly as llama.cpp does (longest first, with the white space that
// some of them strip), skips the guarded ones, and tokenizes the text in between.
//
// User-defined tokens ("<think>" in many models) are not control tokens: llama.cpp recognizes them
// in any text, and so does this class.
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

  // True if `text`, inside a prompt, could become or complete a control token. is_json: it is JSON,
  // whose first and last characters complete none. REQUIRES: its strings have no needless escapes,
  // which a template might resolve.
  bool NeedsGuard(std::string_view text, bool is_json = false) const {
    return !GuardPoints(text, is_json).empty();
  }

  // Returns a character that none of the texts contains. Empty if they contain all 256 candidates.
  static std::string ChooseGuard(const std::vector<std::string_view>& texts);

  // Returns the text with guards inserted.
  std::string Guard(std::string_view text, std::string_view guard, bool is_json = false) const;

  // Tokens of a prompt with guarded parts. Otherwise as LlamaModel::Tokenize with parse_special,
  // with the same errors; also kInvalidRequest if the thread's WorkLimit is exceeded.
  Result<std::vector<Token>> Tokenize(std::string_view prompt, std::string_view guard,
                                      std::uint32_t context_length = 0,
                                      bool add_special = true) const;

 private:
  struct Special {
    Token token;
    std::string text;
    bool control;  // control or unknown: a message must not become it
    bool strips_left;
    bool strips_right;
  };
  struct Fragment {
    Token token;            // negative: text
    std::string_view text;  // part of the prompt, guards included
  };

  // Offsets in `text` that need a guard, ascending.
  std::vector<std::size_t> GuardPoints(std::string_view text, bool is_json) const;
  bool ControlTextAt(std::string_view text, std::size_t at) const;
  void Split(const Special& special, std::string_view guard, std::string_view text,
             std::vector<Fragment>* fragments) const;

  const LlamaModel& model_;
  std::vector<Special> specials_;  // longest text first
  // Control-token texts by first byte, so that a scan tests few of them.
  std::vector<std::vector<std::string_view>> control_by_first_byte_;
};

}  // namespace svc
