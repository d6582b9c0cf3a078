#include "engine/llama/answer/answer_stream.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat.h"
#include "engine/llama/answer/call_parts.h"

namespace svc {
namespace {

// Most bytes that the parser holds back because a tag may begin there.
constexpr std::size_t kLongestTag = 128;
// The text of a call is parsed again once it has grown by its length divided by this.
constexpr std::size_t kGrowthOfCall = 1024;
// Longest id of a call that is passed on, in bytes: a model may write one without end. A call
// without an id gets one from the daemon.
constexpr std::size_t kMaxCallId = 256;
constexpr std::string_view kSpace = " \t\n\r\v\f";
// Put after a text, it shows where a further text would go. A character for private use: no tag
// begins with it, and the content so far does not end with it by chance, as it may with a letter.
constexpr const char* kProbe = "\uE000";

// Calls `visit` with each text that the parser compares with the input.
template <typename Visit>
void ForEachLiteral(const common_peg_arena& parser, Visit visit) {
  const auto all = [&](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) visit(text);
  };
  for (common_peg_parser_id id = 0; id < parser.size(); ++id) {
    const common_peg_parser_variant& part = parser.get(id);
    if (const auto* literal = std::get_if<common_peg_literal_parser>(&part))
      visit(literal->literal);
    if (const auto* until = std::get_if<common_peg_until_parser>(&part)) all(until->delimiters);
    if (const auto* until = std::get_if<common_peg_ac_parser>(&part)) all(until->delimiters);
  }
}

// The text of a token without the space before a word, which is no mark: only at the end of the
// text a tag may follow it.
std::string_view WithoutSpace(std::string_view text) {
  return text.substr(text.starts_with(' ') ? 1 : 0);
}

// Appends what `now` has beyond `before` to *delta; a text that does not continue `before` waits.
void Extend(std::string* before, const std::string& now, std::string* delta) {
  if (now.size() <= before->size() || !now.starts_with(*before)) return;
  delta->append(now, before->size());
  *before = now;
}

// Parses text that may be incomplete. An empty message: nothing was read yet, or the parser rejects
// the text.
common_chat_msg Parsed(const std::string& text, const common_chat_parser_params& parser) {
  try {
    return common_chat_parse(text, /*is_partial=*/true, parser);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

AnswerStream::AnswerStream(std::shared_ptr<const AnswerFormat> format)
    : format_(std::move(format)), delivered_(std::make_unique<common_chat_msg>()) {
  ForEachLiteral(format_->parser->parser, [this](const std::string& literal) {
    if (literal.empty()) return;
    literals_.push_back(literal);
    marks_[static_cast<unsigned char>(literal.front())] = true;
  });
  for (const auto& [name, call] : CallsOf(format_->parser->parser)) tools_.push_back(name);
  std::sort(literals_.begin(), literals_.end());
  literals_.erase(std::unique(literals_.begin(), literals_.end()), literals_.end());
  // Parsers trim white space around tags.
  for (const char space : kSpace) marks_[static_cast<unsigned char>(space)] = true;
  if (!format_->parser->is_continuation) return;
  // The part of the message that is in the prompt does not belong to the answer.
  *delivered_ = Parsed("", *format_->parser);
}

AnswerStream::~AnswerStream() = default;

bool AnswerStream::has_called() const { return !delivered_->tool_calls.empty(); }

bool AnswerStream::MayHoldMark(std::string_view text) const {
  for (const char byte : text) {
    if (marks_[static_cast<unsigned char>(byte)]) return true;
  }
  return false;
}

bool AnswerStream::MayHoldBack(std::string_view part) const {
  const std::string_view text = text_;
  for (std::size_t held = 1; held <= std::min(text.size(), kLongestTag); ++held) {
    const std::string_view before = text.substr(0, text.size() - held);
    if (marks_[static_cast<unsigned char>(text[before.size()])] && before.ends_with(part)) {
      return true;
    }
  }
  return false;
}

void AnswerStream::Read(const std::string& text, bool last, GenerationOutput* output) {
  if (rest_) {
    ReadRest(text, last, output);
    return;
  }
  text_ += text;
  if (!last && text.empty()) return;
  if (!last && has_called() && text_.size() - parsed_ < parsed_ / kGrowthOfCall) return;
  const std::string_view word = WithoutSpace(text);
  if (!last && open_ != Open::kNothing && !word.empty() && !MayHoldMark(word)) {
    const bool is_content = open_ == Open::kContent;
    (is_content ? delivered_->content : delivered_->reasoning_content) += text;
    (is_content ? output->text : output->reasoning) += text;
    return;
  }
  Parse(last, output);
}

bool AnswerStream::BeginsInContent(const std::string& unread, const std::string& stop) const {
  if (has_called()) return false;
  if (rest_) return true;
  if (open_ == Open::kReasoning && !MayHoldMark(WithoutSpace(unread))) return false;
  const std::string text = text_ + unread;
  const common_chat_msg after = Parsed(text + kProbe, *format_->parser);
  if (after.content.ends_with(kProbe)) {
    // The stop string may be a tag, the end of one, or white space that the parser trims.
    const std::string further = stop + kProbe;
    return Parsed(text + further, *format_->parser).content.ends_with(further);
  }
  return !after.reasoning_content.ends_with(kProbe) && EndsInContent(text);
}

// For content in which not every character may stand, such as JSON, and for text that the parser
// refuses, which is content.
bool AnswerStream::EndsInContent(const std::string& text) const {
  const common_chat_msg message = Parsed(text, *format_->parser);
  if (!message.tool_calls.empty()) return false;
  const std::size_t end = text.find_last_not_of(kSpace) + 1;
  const std::size_t content_end = message.content.find_last_not_of(kSpace) + 1;
  if (content_end == 0) return end == 0 || (message.empty() && WhereRefused(text).has_value());
  return std::string_view(text).substr(0, end).ends_with(
      std::string_view(message.content).substr(0, content_end));
}

void AnswerStream::Parse(bool last, GenerationOutput* output) {
  parsed_ = text_.size();
  common_chat_msg message = Parsed(text_, *format_->parser);
  if (message.empty()) {
    if (const std::optional<std::size_t> at = WhereRefused(text_)) {
      GiveUp(*at, last, output);
      return;
    }
  }
  if (last) AddHeldBack(&message);
  Deliver(message, last, output);
}

std::optional<std::size_t> AnswerStream::WhereRefused(const std::string& text) const {
  const std::string& prompt = format_->parser->generation_prompt;
  const std::optional<std::size_t> at = RefusedAt(format_->parser->parser, prompt + text);
  if (!at) return std::nullopt;
  return *at - std::min(*at, prompt.size());
}

void AnswerStream::GiveUp(std::size_t refused_at, bool last, GenerationOutput* output) {
  const common_chat_msg message = Parsed(text_.substr(0, refused_at), *format_->parser);
  Deliver(message, last, output);
  open_ = Open::kNothing;
  rest_.emplace(*format_);
  content_ = message.content;
  ReadRest(text_.substr(refused_at), last, output);
}

void AnswerStream::ReadRest(const std::string& text, bool last, GenerationOutput* output) {
  if (has_called()) return;
  content_ += rest_->Read(text, last);
  Extend(&delivered_->content, content_, &output->text);
}

// Finds the held-back text: it directly follows the last part of the answer and is the beginning of
// a tag. White space alone does not count, because parsers trim it around tags.
void AnswerStream::AddHeldBack(common_chat_msg* message) const {
  if (!message->tool_calls.empty()) return;
  const bool is_reasoning = message->content.empty() && !message->reasoning_content.empty();
  std::string& open = is_reasoning ? message->reasoning_content : message->content;
  if (!open.empty() && text_.ends_with(open)) return;
  const std::string_view text = text_;
  for (std::size_t held = std::min(text.size(), kLongestTag); held > 0; --held) {
    const std::string_view before = text.substr(0, text.size() - held);
    const std::string_view rest = text.substr(before.size());
    const bool is_behind = open.empty() ? before.empty() : before.ends_with(open);
    if (!is_behind || rest.find_first_not_of(kSpace) == std::string_view::npos) continue;
    if (std::ranges::any_of(literals_, [&](const std::string& literal) {
          return literal.size() > held && literal.starts_with(rest);
        })) {
      open += rest;
      return;
    }
  }
}

bool AnswerStream::MayGoOn(std::string_view name) const {
  return std::ranges::any_of(tools_, [name](const std::string& tool) {
    return tool.size() > name.size() && tool.starts_with(name);
  });
}

void AnswerStream::Deliver(const common_chat_msg& message, bool last, GenerationOutput* output) {
  Extend(&delivered_->reasoning_content, message.reasoning_content, &output->reasoning);
  Extend(&delivered_->content, message.content, &output->text);
  for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
    const common_chat_tool_call& call = message.tool_calls[i];
    // llama.cpp adds the first character of the arguments once a name matches. Until more follow,
    // the name may be the beginning of another tool's name.
    const bool is_named = call.arguments.size() > 1 || last || i + 1 < message.tool_calls.size() ||
                          (!call.arguments.empty() && !MayGoOn(call.name));
    if (call.name.empty() || !is_named) break;
    ToolCallPart part{.index = static_cast<std::uint32_t>(i)};
    if (i == delivered_->tool_calls.size()) {
      delivered_->tool_calls.push_back({.name = call.name, .arguments = "", .id = call.id});
      part.name = call.name;
      if (call.id.size() <= kMaxCallId) part.id = call.id;
    }
    Extend(&delivered_->tool_calls[i].arguments, call.arguments, &part.arguments);
    if (!part.name.empty() || !part.arguments.empty()) {
      output->tool_calls.push_back(std::move(part));
    }
  }

  open_ = Open::kNothing;
  if (!delivered_->tool_calls.empty()) return;
  const auto ends_in = [this](const std::string& part, const std::string& parsed) {
    return !part.empty() && part == parsed && text_.ends_with(part) && !MayHoldBack(part);
  };
  if (ends_in(delivered_->content, message.content)) {
    open_ = Open::kContent;
  } else if (message.content.empty() &&
             ends_in(delivered_->reasoning_content, message.reasoning_content)) {
    open_ = Open::kReasoning;
  }
}

}  // namespace svc
