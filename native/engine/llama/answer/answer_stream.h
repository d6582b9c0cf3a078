// Splits the text of an answer into content, reasoning and tool calls with llama.cpp's parser for
// the model's template (common_chat_parse).
//
// That parser reads the whole text each time, which would make a long answer cost the square of its
// length. So text that surely continues what the last parse ended in (content or reasoning) is
// appended without a parse: text without any character with which a literal of the parser begins.
// Within a call, the text is parsed each time it has grown by a 1024th.
//
// What was delivered is never changed. If a later parse disagrees with it, the stream waits until
// one agrees again. Once the parser rejects the text, more text cannot help: the rest is delivered
// as content (unread_text.h), or dropped if calls precede it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/answer/answer_format.h"
#include "engine/llama/answer/unread_text.h"
#include "engine/model/answer_reader.h"

struct common_chat_msg;

namespace svc {

class AnswerStream final : public AnswerReader {
 public:
  // REQUIRES: the format has a parser.
  explicit AnswerStream(std::shared_ptr<const AnswerFormat> format);
  ~AnswerStream() override;

  void Read(const std::string& text, bool last, GenerationOutput* output) override;
  bool BeginsInContent(const std::string& unread, const std::string& stop) const override;
  bool has_called() const override;

 private:
  enum class Open { kNothing, kContent, kReasoning };  // what the text ends in

  bool MayHoldMark(std::string_view text) const;
  bool EndsInContent(const std::string& text) const;
  // True if `part`, with which the text ends, may also end before a beginning of a tag that the
  // parser holds back: "t" in "t<t".
  bool MayHoldBack(std::string_view part) const;
  // True if the name is the beginning of another tool's name.
  bool MayGoOn(std::string_view name) const;
  void Parse(bool last, GenerationOutput* output);
  // The place in `text` that the parser does not accept, whatever text follows. Absent: it accepts
  // the text.
  std::optional<std::size_t> WhereRefused(const std::string& text) const;
  // Stops parsing: the text from `refused_at` on becomes content.
  void GiveUp(std::size_t refused_at, bool last, GenerationOutput* output);
  void ReadRest(const std::string& text, bool last, GenerationOutput* output);
  // Adds to a whole answer what the parser held back at its end, since a tag might begin there.
  void AddHeldBack(common_chat_msg* message) const;
  void Deliver(const common_chat_msg& message, bool last, GenerationOutput* output);

  const std::shared_ptr<const AnswerFormat> format_;
  std::vector<std::string> literals_;  // of the parser
  std::vector<std::string> tools_;     // names
  std::array<bool, 256> marks_{};      // bytes with which they begin, and white space
  std::string text_;
  std::size_t parsed_ = 0;  // bytes of `text_` at the last parse
  std::unique_ptr<common_chat_msg> delivered_;
  Open open_ = Open::kNothing;
  // Set once the parser refuses the text: the rest of it is content, unless calls precede it.
  std::optional<UnreadText> rest_;
  std::string content_;  // all content of the answer, once `rest_` is set
};

}  // namespace svc
