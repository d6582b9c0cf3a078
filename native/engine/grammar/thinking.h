// Follows a generation's reasoning: where it begins and ends, and how many tokens it may take. Once
// these are used up, the tokens of the end tag are forced, so that the answer follows in the
// template's own form.
//
// Reads the text, as the parser of the answer does. Only a control token is always the same token:
// another tag has other tokens beside other characters ("</think>" before a line break may end in
// the token ">\n"), which llama.cpp's sampler for reasoning budgets (common/reasoning-budget.h)
// does not recognize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/text_stream.h"

namespace svc {

// A start tag with a control token in it counts anywhere. Another one counts only at the beginning
// of the answer, since a text may quote it.
struct ThinkingTags {
  std::string start;              // not empty
  std::vector<std::string> ends;  // none is empty; the first one is forced
};

// Owner: one generation's sampler.
class Thinking {
 public:
  // Returns the tokens of a text as the model would write it inside a longer text; none: it can't.
  using Tokenizer = std::function<std::vector<Token>(const std::string& text)>;

  // is_open: the prompt has opened the reasoning. `budget`: most tokens of reasoning; absent: no
  // limit.
  Thinking(ThinkingTags tags, bool is_open, std::optional<std::uint32_t> budget,
           Tokenizer tokenize);

  // True inside the reasoning, its end tag included.
  bool is_open() const { return is_open_; }
  // True if the answer, continued by `text`, begins with the start tag, or with a part of it that
  // the model can complete. White space before it does not matter.
  bool MayOpen(std::string_view text) const;
  // What the text has from the end tag on if it ends the reasoning.
  struct End {
    std::string text;
    std::size_t length = 0;  // of the tag in it
  };
  std::optional<End> Ends(std::string_view text) const;
  // Demands that the start tag, of which a part is written, is completed. REQUIRES: MayOpen("")
  void Open();
  // Token that must follow. REQUIRES: Accept is called with it.
  std::optional<Token> Forced() const;
  // Advances by a token of the answer. `text`: its bytes, those of control tokens included.
  void Accept(std::string_view text, bool is_control);

 private:
  // What of the start tag is missing if `text` ends within it, at the beginning of the answer.
  std::optional<std::string> Missing(std::string_view text) const;
  // The text behind the start tag if `text` completes it.
  std::optional<std::string> Opens(std::string_view text, bool is_control) const;
  void Keep(std::string_view text, bool is_control);
  void Turn(bool is_open);
  void ForceEndIfSpent();

  const ThinkingTags tags_;
  const std::optional<std::uint32_t> budget_;
  const Tokenizer tokenize_;
  std::size_t longest_ = 0;  // bytes of the longest tag
  bool is_open_ = false;
  bool is_beginning_ = true;   // the answer may still begin with the start tag
  std::string written_;        // end of the text, no longer than a tag
  std::string is_control_;     // by byte of it: 1 if a control token wrote it
  std::uint32_t spent_ = 0;    // tokens of the open reasoning
  TextStream characters_{{}};  // of the open reasoning, to see where one is complete
  std::vector<Token> forced_;
  std::size_t next_forced_ = 0;  // in forced_
};

}  // namespace svc
