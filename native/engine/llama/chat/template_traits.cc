#include "engine/llama/chat/template_traits.h"

#include <algorithm>
#include <array>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat.h"
#include "engine/base/work_limit.h"
#include "engine/llama/answer/content_opening.h"
#include "engine/llama/chat/own_calls.h"
#include "engine/llama/chat/template_inputs.h"
#include "engine/llama/jinja/template_limit.h"

namespace svc {
namespace {

// Texts of the chat with which a template's tool calls are tried.
constexpr std::array<std::string_view, 4> kTried = {"moon_phase_on", "a day to look at", "q7",
                                                    "waxing gibbous"};

ChatOptions TriedOptions() {
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kNone;
  options.tools.push_back({.name = "moon_phase_on",
                           .description = "Phase of the moon on a day to look at",
                           .parameters =
                               R"({"type":"object","properties":{"day":{"type":"string"}},)"
                               R"("required":["day"]})"});
  return options;
}

const ToolCall& TriedCall() {
  static const ToolCall call = {
      .id = "abcdefghi", .name = "moon_phase_on", .arguments = R"({"day":"q7"})"};
  return call;
}

std::vector<ChatMessage> TriedChat() {
  return {{.role = "user", .content = "Which phase?"},
          {.role = "assistant", .content = "", .tool_calls = {TriedCall()}},
          {.role = "tool", .content = "waxing gibbous", .tool_call_id = "abcdefghi"},
          // Some templates want users and assistants in turn.
          {.role = "assistant", .content = "Waxing."},
          {.role = "user", .content = "And now?"}};
}

// With a second call, and its result.
std::vector<ChatMessage> TriedChatOfTwo() {
  std::vector<ChatMessage> chat = TriedChat();
  ToolCall second = TriedCall();
  second.id = "jklmnopqr";
  second.arguments = R"({"day":"q8"})";
  chat[1].tool_calls.push_back(second);
  chat.insert(chat.begin() + 3,
              {.role = "tool", .content = "waning crescent", .tool_call_id = second.id});
  return chat;
}

bool HasInOrder(std::string_view prompt, std::initializer_list<std::string_view> texts) {
  std::size_t at = 0;
  return std::ranges::all_of(texts, [&](std::string_view text) {
    at = prompt.find(text, at);
    return at != std::string_view::npos;
  });
}

class Learner {
 public:
  explicit Learner(const Templates& templates) : templates_(templates) {}

  TemplateTraits Learn() {
    traits_.is_specialized = IsSpecialized(templates_.of_prompts.get());
    const std::string source = common_chat_templates_source(templates_.of_prompts.get());
    // llama.cpp passes the effort to templates under both names.
    traits_.knows_efforts = source.find("reasoning_effort") != std::string::npos ||
                            source.find("reasoning_strength") != std::string::npos;
    const bool has_template = common_chat_templates_was_explicit(templates_.of_prompts.get());
    if (!has_template) traits_.stop.emplace_back("<|im_end|>");
    traits_.thinking = PlainFormat(ReasoningEffort::kDefault);
    traits_.answering = PlainFormat(ReasoningEffort::kNone);
    traits_.can_answer_at_once = traits_.thinks && traits_.thinking->generation_prompt !=
                                                       traits_.answering->generation_prompt;
    LearnWhatIsWritten();
    return traits_;
  }

 private:
  common_chat_templates_inputs InputsOf(const std::vector<ChatMessage>& messages,
                                        const ChatOptions& options) const {
    return TemplateInputs(messages, options, traits_.knows_efforts);
  }

  // Format of the answer to a plain chat. A template for a special purpose may refuse that: then
  // its answers are plain text.
  std::shared_ptr<const AnswerFormat> PlainFormat(ReasoningEffort effort) {
    ChatOptions options;
    options.reasoning_effort = effort;
    auto plain = std::make_shared<AnswerFormat>();
    try {
      const common_chat_params found =
          ApplyTemplates(templates_.of_answers.get(), InputsOf({{"user", "Hello"}}, options));
      Result<std::shared_ptr<const AnswerFormat>> format = MakeAnswerFormat(found, options);
      // In other formats all of the text is content, so a parser would only cost time.
      const bool has_tags = format.ok() && !format.value()->thinking_ends.empty();
      if (has_tags || (format.ok() && !OpeningOf(*format.value()).at_once.empty())) {
        traits_.thinks = traits_.thinks || has_tags || found.supports_thinking;
        return format.value();
      }
      plain->stop = found.additional_stops;
    } catch (const std::exception&) {
    }
    plain->stop.insert(plain->stop.end(), traits_.stop.begin(), traits_.stop.end());
    return plain;
  }

  void LearnWhatIsWritten() {
    const std::string systems = Prompt(
        {{"system", "q1"}, {"user", "q2"}, {"assistant", "q3"}, {"system", "q4"}, {"user", "q5"}},
        {});
    traits_.writes_late_systems = HasInOrder(systems, {"q1", "q2", "q3", "q4", "q5"});
    traits_.writes_systems =
        HasInOrder(Prompt({{"system", "q1"}, {"user", "q2"}}, {}), {"q1", "q2"});
    const ChatOptions options = TriedOptions();
    const std::string calls = Prompt(TriedChat(), options);
    traits_.writes_calls = HasInOrder(calls, {"q7", "waxing gibbous"});
    traits_.writes_several_calls =
        traits_.writes_calls &&
        HasInOrder(Prompt(TriedChatOfTwo(), options), {"q8", "waning crescent"});
    traits_.calls_tools =
        std::ranges::all_of(
            kTried, [&](std::string_view part) { return calls.find(part) != std::string::npos; }) &&
        CanReadCalls(options);
  }

  // True if a call has a grammar, and is read as the template writes it.
  bool CanReadCalls(const ChatOptions& options) const {
    const common_chat_templates* const templates = templates_.of_answers.get();
    try {
      common_chat_templates_inputs inputs = InputsOf(TriedChat(), options);
      inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
      if (ApplyTemplates(templates, inputs).grammar.empty()) return false;
      const common_chat_templates_inputs question = InputsOf({TriedChat().front()}, options);
      const auto format = MakeAnswerFormat(ApplyTemplates(templates, question), options);
      const ToolCall& call = TriedCall();
      return format.ok() &&
             OwnCalls(templates, question, format.value(), {{call.name, call.arguments, call.id}})
                 .has_value();
    } catch (const std::exception&) {
      return false;  // the template refuses such a chat
    }
  }

  // The prompt of a chat; empty: the template refuses it.
  std::string Prompt(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
    try {
      return ApplyTemplates(templates_.of_prompts.get(), InputsOf(messages, options)).prompt;
    } catch (const std::exception&) {
      return {};
    }
  }

  const Templates& templates_;
  TemplateTraits traits_;
};

}  // namespace

TemplateTraits LearnTraits(const Templates& templates) {
  const WorkLimit limit;
  return Learner(templates).Learn();
}

}  // namespace svc
