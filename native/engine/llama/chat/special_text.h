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
// User-defined tokens are not control tokens: llama.cpp recognizes them in any text. Those that the
// chat template writes ("<tool_response>" in many models) are guarded, too, so that a tool's result
// cannot end itself and speak as the user. Only texts of the assistant may have them ("<think>"),
// since they are its own. All others ("<table>", several spaces) are left as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/llama_model.h"

namespace svc {

enum class TextKind {
  kText,
  // JSON, whose first and last characters complete no token. Its strings have no needless escapes,
  // which a template might resolve.
  kJson,
  kAnswer,  // of the assistant
};

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class SpecialText {
 public:
  // `chat_template`: its user-defined tokens are guarded.
  explicit SpecialText(const LlamaModel& model, std::string_view chat_template = "");

  // True if `text`, inside a prompt, could become or complete a guarded token.
  bool NeedsGuard(std::string_view text, TextKind kind = TextKind::kText) const {
    return !GuardPoints(text, kind).empty();
  }

  // Returns a character that none of the texts contains. Empty if they contain all 256 candidates.
  static std::string ChooseGuard(const std::vector<std::string_view>& texts);

  // Returns the text with guards inserted.
  std::string Guard(std::string_view text, std::string_view guard,
                    TextKind kind = TextKind::kText) const;

  // Tokens of a prompt with guarded parts. Otherwise as LlamaModel::Tokenize with parse_special,
  // with the same errors; also kInvalidRequest if the thread's WorkLimit is exceeded.
  Result<std::vector<Token>> Tokenize(std::string_view prompt, std::string_view guard,
                                      std::uint32_t context_length = 0,
                                      bool add_special = true) const;

 private:
  struct Special {
    Token token;
    std::string text;
    bool control;  // control or unknown: no message may become it
    bool guarded;  // also: user-defined and written by the template
    bool strips_left;
    bool strips_right;
  };
  struct Fragment {
    Token token;            // negative: text
    std::string_view text;  // part of the prompt, guards included
  };

  // Offsets in `text` that need a guard, ascending.
  std::vector<std::size_t> GuardPoints(std::string_view text, TextKind kind) const;
  void Split(const Special& special, std::string_view guard, std::string_view text,
             std::vector<Fragment>* fragments) const;

  std::vector<std::string> PlainTexts(std::string_view text, std::string_view guard) const;

  const LlamaModel& model_;
  std::vector<Special> specials_;  // longest text first
  // Indices of the guarded ones by first byte, so that a scan tests few of them.
  std::vector<std::vector<std::size_t>> guarded_by_first_byte_;
};

}  // namespace svc
