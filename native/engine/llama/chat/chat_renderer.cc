#include "engine/llama/chat/chat_renderer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "chat.h"
#include "engine/base/json_depth.h"
#include "engine/base/work_limit.h"
#include "engine/llama/chat/content_opening.h"
#include "engine/llama/chat/distinct_rules.h"
#include "engine/llama/chat/media_marks.h"
#include "engine/llama/chat/own_calls.h"
#include "engine/llama/chat/refused_chat.h"
#include "engine/llama/jinja/template_limit.h"

namespace svc {
namespace {

// Allowed roles. Templates write the role as part of their own text, where any string could form a
// control token ('<|' + role + '|>').
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

Status Refuse(std::string why, const char* param) {
  return {StatusCode::kInvalidRequest, std::move(why), param};
}

std::string SourceOf(const common_chat_templates* templates) {
  return common_chat_templates_source(templates) +
         common_chat_templates_source(templates, "tool_use");
}

// Refuses JSON texts that llama.cpp could not convert.
Status CheckDepths(const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  const auto is_deep = [](const std::string& json) { return JsonDepth(json) > kMaxJsonDepth; };
  const auto refuse = [](const std::string& what, const char* param) {
    return Status(StatusCode::kInvalidRequest,
                  what + " nested deeper than " + std::to_string(kMaxJsonDepth) + " levels", param);
  };
  for (const ChatMessage& message : messages) {
    for (const ToolCall& call : message.tool_calls) {
      if (is_deep(call.arguments)) return refuse("a tool call's arguments are", "messages");
    }
  }
  for (const Tool& tool : options.tools) {
    if (is_deep(tool.parameters)) return refuse("a tool's parameters are", "tools");
  }
  for (const auto& [name, value] : options.template_variables) {
    if (is_deep(value)) return refuse("a template variable is", "chat_template_kwargs");
  }
  return Status::Ok();
}

bool HasRole(const ChatMessage& message) {
  return std::find(kRoles.begin(), kRoles.end(), message.role) != kRoles.end();
}

// True if the chat needs the analysis of its template: a plain chat's prompt and answer do not
// depend on it.
bool NeedsAnalysis(const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  return !options.tools.empty() || options.continue_last || !options.template_variables.empty() ||
         std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
           return message.role == "tool" || !message.tool_calls.empty() ||
                  !message.reasoning.empty();
         });
}

// Value of the template's variable enable_thinking, as JSON; empty: it is not set.
std::string_view EnableThinking(const ChatOptions& options) {
  for (const auto& [name, value] : options.template_variables) {
    if (name == "enable_thinking") return value;
  }
  return "";
}

bool MayCall(const ChatOptions& options) {
  return !options.tools.empty() && options.tool_choice == ToolChoice::kAuto;
}

bool Thinks(const ChatOptions& options) {
  return EnableThinking(options) != "false" && options.reasoning_effort != ReasoningEffort::kNone &&
         options.reasoning_budget_tokens.value_or(1) > 0;
}

// Most tokens of reasoning for models whose template knows no effort.
std::optional<std::uint32_t> BudgetOfEffort(ReasoningEffort effort) {
  switch (effort) {
    case ReasoningEffort::kNone:
      return 0;
    case ReasoningEffort::kMinimal:
      return 256;
    case ReasoningEffort::kLow:
      return 1024;
    case ReasoningEffort::kMedium:
      return 4096;
    case ReasoningEffort::kHigh:
      return 16384;
    default:
      return std::nullopt;
  }
}

common_chat_msg ToMessage(const ChatMessage& message, const std::vector<ChatMessage>& all) {
  common_chat_msg made;
  made.role = message.role;
  made.content = message.content;
  made.reasoning_content = message.reasoning;
  made.tool_call_id = message.tool_call_id;
  made.tool_name = message.tool_name;
  for (const ToolCall& call : message.tool_calls) {
    made.tool_calls.push_back({.name = call.name, .arguments = call.arguments, .id = call.id});
  }
  if (message.role != "tool" || !made.tool_name.empty()) return made;
  for (const ChatMessage& each : all) {
    for (const ToolCall& call : each.tool_calls) {
      if (call.id == message.tool_call_id) made.tool_name = call.name;
    }
  }
  return made;
}

common_chat_tool_choice ToChoice(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kNone:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    default:
      return COMMON_CHAT_TOOL_CHOICE_AUTO;
  }
}

// Texts of the chat with which a template's tool calls are tried.
constexpr std::array<std::string_view, 4> kTried = {"moon_phase_on", "a day to look at", "q7",
                                                    "waxing gibbous"};

TextKind KindOf(const ChatMessage& message) {
  return message.role == "assistant" ? TextKind::kAnswer : TextKind::kText;
}

// Calls `visit` with every text of the chat that a client wrote, and its kind.
template <typename Messages, typename Options, typename Visit>
void ForEachText(Messages& messages, Options& options, Visit visit) {
  using enum TextKind;
  for (auto& message : messages) {
    visit(message.content, KindOf(message));
    visit(message.reasoning, kAnswer);
    visit(message.tool_call_id, kText);
    visit(message.tool_name, kText);
    for (auto& call : message.tool_calls) {
      visit(call.id, kText);
      visit(call.name, kText);
      visit(call.arguments, kJson);
    }
  }
  for (auto& tool : options.tools) {
    visit(tool.name, kText);
    visit(tool.description, kText);
    visit(tool.parameters, kJson);
  }
  for (auto& [name, value] : options.template_variables) visit(value, kJson);
}

// Bytes of the texts that every template renders, apart from white space around them: of all
// messages but the assistant's.
std::size_t LengthKept(const std::vector<ChatMessage>& messages) {
  std::size_t length = 0;
  for (const ChatMessage& message : messages) {
    if (message.role != "assistant") length += message.content.size();
  }
  return length;
}

}  // namespace

ChatRenderer::ChatRenderer(const LlamaModel& model) : model_(model) {}
ChatRenderer::~ChatRenderer() = default;

Result<std::unique_ptr<ChatRenderer>> ChatRenderer::New(const LlamaModel& model,
                                                        const std::string& chat_template) {
  std::unique_ptr<ChatRenderer> renderer(new ChatRenderer(model));
  Result<common_chat_templates_ptr> templates = InitTemplates(model.get(), chat_template);
  if (!templates.ok()) return templates.status();
  renderer->templates_ = std::move(templates.value());
  renderer->special_text_.emplace(model, SourceOf(renderer->templates_.get()));
  renderer->LearnFormats();
  return renderer;
}

bool ChatRenderer::has_template() const {
  return common_chat_templates_was_explicit(templates_.get());
}

// Tries the template with the chats whose answers are to be understood later. A template for a
// special purpose may refuse them all: then its answers are plain text.
void ChatRenderer::LearnFormats() {
  const WorkLimit limit;
  const std::string source = common_chat_templates_source(templates_.get());
  // llama.cpp passes the effort to templates under both names.
  knows_efforts_ = source.find("reasoning_effort") != std::string::npos ||
                   source.find("reasoning_strength") != std::string::npos;
  const std::vector<ChatMessage> question = {{"user", "Hello"}};
  const auto learn = [&](ReasoningEffort effort) -> std::shared_ptr<const AnswerFormat> {
    ChatOptions options;
    options.reasoning_effort = effort;
    auto plain = std::make_shared<AnswerFormat>();
    try {
      const common_chat_params found =
          ApplyTemplates(templates_.get(), InputsOf(question, options));
      Result<std::shared_ptr<const AnswerFormat>> format = MakeAnswerFormat(found, options);
      // In other formats all of the text is content, so a parser would only cost time.
      const bool has_tags = format.ok() && !format.value()->thinking_ends.empty();
      if (has_tags || (format.ok() && !OpeningOf(*format.value()).at_once.empty())) {
        thinks_ = thinks_ || has_tags || found.supports_thinking;
        return format.value();
      }
      plain->stop = found.additional_stops;
    } catch (const std::exception&) {
    }
    if (!has_template()) plain->stop.emplace_back("<|im_end|>");
    return plain;
  };
  thinking_ = learn(ReasoningEffort::kDefault);
  answering_ = learn(ReasoningEffort::kNone);
  can_answer_at_once_ = thinks() && thinking_->generation_prompt != answering_->generation_prompt;
  LearnTools();
}

// A tool, its call and its result must reach the prompt, a call must have a grammar, and a call as
// the template writes it must be read.
void ChatRenderer::LearnTools() {
  ChatOptions options;
  options.reasoning_effort = ReasoningEffort::kNone;
  options.tools.push_back({.name = "moon_phase_on",
                           .description = "Phase of the moon on a day to look at",
                           .parameters =
                               R"({"type":"object","properties":{"day":{"type":"string"}},)"
                               R"("required":["day"]})"});
  const ToolCall call = {
      .id = "abcdefghi", .name = "moon_phase_on", .arguments = R"({"day":"q7"})"};
  const std::vector<ChatMessage> chat = {
      {.role = "user", .content = "Which phase?"},
      {.role = "assistant", .content = "", .tool_calls = {call}},
      {.role = "tool", .content = "waxing gibbous", .tool_call_id = "abcdefghi"},
      // Some templates want users and assistants in turn.
      {.role = "assistant", .content = "Waxing."},
      {.role = "user", .content = "And now?"}};
  const auto apply = [this](const common_chat_templates_inputs& inputs) {
    return ApplyTemplates(templates_.get(), inputs);
  };
  try {
    common_chat_templates_inputs inputs = InputsOf(chat, options);
    const std::string prompt = apply(inputs).prompt;
    inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    const bool is_rendered = std::all_of(kTried.begin(), kTried.end(), [&](std::string_view part) {
      return prompt.find(part) != std::string::npos;
    });
    if (!is_rendered || apply(inputs).grammar.empty()) return;
    const common_chat_templates_inputs question = InputsOf({chat.front()}, options);
    const auto format = MakeAnswerFormat(apply(question), options);
    calls_tools_ = format.ok() && OwnCalls(templates_.get(), question, format.value(),
                                           {{call.name, call.arguments, call.id}})
                                      .has_value();
  } catch (const std::exception&) {
    // The template refuses such a chat.
  }
  calls_several_ = calls_tools_ && HoldsSecondCall(chat, options);
}

// True if the template renders the second of two calls. `chat` has one call with its result.
bool ChatRenderer::HoldsSecondCall(std::vector<ChatMessage> chat,
                                   const ChatOptions& options) const {
  const auto answer = chat.begin() + 1;
  answer->tool_calls.push_back(answer->tool_calls.front());
  answer->tool_calls.back().id = "jklmnopqr";
  answer->tool_calls.back().arguments = R"({"day":"q8"})";
  chat.insert(chat.begin() + 3,
              {.role = "tool", .content = "waning crescent", .tool_call_id = "jklmnopqr"});
  try {
    const std::string prompt = ApplyTemplates(templates_.get(), InputsOf(chat, options)).prompt;
    return prompt.find("q8") != std::string::npos &&
           prompt.find("waning crescent") != std::string::npos;
  } catch (const std::exception&) {
    return false;
  }
}

common_chat_templates_inputs ChatRenderer::InputsOf(const std::vector<ChatMessage>& messages,
                                                    const ChatOptions& options) const {
  common_chat_templates_inputs inputs;
  for (const ChatMessage& message : messages) {
    inputs.messages.push_back(ToMessage(message, messages));
  }
  for (const Tool& tool : options.tools) {
    inputs.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  inputs.tool_choice = ToChoice(options.tool_choice);
  inputs.parallel_tool_calls = options.parallel_tool_calls;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = Thinks(options);
  if (options.continue_last) {
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  for (const auto& [name, value] : options.template_variables) {
    inputs.chat_template_kwargs[name] = value;
  }
  if (knows_efforts_ && options.reasoning_effort > ReasoningEffort::kNone) {
    const char* const effort =
        Names(ReasoningEffort{})[static_cast<std::size_t>(options.reasoning_effort)];
    inputs.chat_template_kwargs["reasoning_effort"] = '"' + std::string(effort) + '"';
  }
  return inputs;
}

Status ChatRenderer::Check(const std::vector<ChatMessage>& messages,
                           const ChatOptions& options) const {
  if (messages.empty()) return Refuse("the chat has no messages", "messages");
  if (!std::all_of(messages.begin(), messages.end(), HasRole)) {
    return Refuse("a message's role must be system, developer, user, assistant or tool",
                  "messages");
  }
  if (options.continue_last &&
      (messages.back().role != "assistant" || !messages.back().tool_calls.empty())) {
    return Refuse("only an assistant message without tool calls can be continued", "messages");
  }
  if (options.continue_last && options.tool_choice == ToolChoice::kRequired &&
      !messages.back().content.empty()) {
    return Refuse(
        "a forced tool call must begin the answer, so the last assistant message cannot be "
        "continued with this tool_choice",
        "tool_choice");
  }
  if (!calls_tools_ && !options.tools.empty() && options.tool_choice != ToolChoice::kNone) {
    return Refuse("this model's chat template has no form for tool calls", "tools");
  }
  if (!thinks() && options.reasoning_effort > ReasoningEffort::kNone) {
    return Refuse("this model's chat template has no reasoning", "reasoning_effort");
  }
  if (thinking_->thinking_ends.empty() && options.reasoning_budget_tokens.value_or(0) > 0) {
    return Refuse(thinks() ? "this model's reasoning has no end tag, so it cannot be limited: use "
                             "reasoning_effort"
                           : "this model's chat template has no reasoning",
                  "reasoning_budget_tokens");
  }
  if (EnableThinking(options).starts_with('"')) {
    return Refuse("enable_thinking must be true or false, not a string", "chat_template_kwargs");
  }
  return CheckDepths(messages, options);
}

std::optional<std::uint32_t> ChatRenderer::ThinkingBudget(const ChatOptions& options) const {
  if (!thinks() || (!Thinks(options) && can_answer_at_once_)) return std::nullopt;
  if (options.reasoning_budget_tokens) return options.reasoning_budget_tokens;
  if (!Thinks(options) || !knows_efforts_) return BudgetOfEffort(options.reasoning_effort);
  return std::nullopt;
}

Result<ChatRenderer::Rendered> ChatRenderer::Apply(const std::vector<ChatMessage>& messages,
                                                   const ChatOptions& options) const {
  if (Status status = Check(messages, options); !status.ok()) return status;
  if (!options.tools.empty() && options.parallel_tool_calls && !calls_several_) {
    // The template could not render another call in the next turn.
    ChatOptions one = options;
    one.parallel_tool_calls = false;
    return Apply(messages, one);
  }
  try {
    common_chat_templates_inputs inputs = InputsOf(messages, options);
    inputs.force_pure_content = !NeedsAnalysis(messages, options);
    common_chat_params found = ApplyTemplates(templates_.get(), inputs);
    if (inputs.force_pure_content) {
      return Rendered{std::move(found.prompt), Thinks(options) ? thinking_ : answering_};
    }
    if (!options.tool_name.empty()) {
      // The prompt lists all tools, so that its prefix stays the same; the answer calls one of
      // them.
      ChatOptions one = options;
      one.tool_name.clear();
      std::erase_if(one.tools, [&](const Tool& tool) { return tool.name != options.tool_name; });
      Result<Rendered> called = Apply(messages, one);
      if (!called.ok()) return called.status();
      return Rendered{std::move(found.prompt), std::move(called.value().format)};
    }
    const auto apply = [this](const common_chat_templates_inputs& any) {
      return ApplyTemplates(templates_.get(), any);
    };
    found = WithDistinctRules(std::move(found), inputs, apply);
    const bool is_either = options.has_output_format && MayCall(options);
    if (is_either) inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    Result<std::shared_ptr<const AnswerFormat>> format =
        is_either
            ? MakeFormatWithCalls(found, WithDistinctRules(apply(inputs), inputs, apply), options)
            : MakeAnswerFormat(found, options);
    if (!format.ok()) return format.status();
    if (options.continue_last) {
      auto continued = std::make_shared<AnswerFormat>(*format.value());
      continued->continued = messages.back().content;
      format = std::shared_ptr<const AnswerFormat>(std::move(continued));
    }
    return Rendered{std::move(found.prompt), std::move(format.value())};
  } catch (const std::exception& error) {
    if (WorkLimit::IsOutOfMemory()) {
      return Refuse(
          "the model's chat template needs too much memory for this chat, or follows values that "
          "contain themselves",
          "messages");
    }
    if (WorkLimit::IsExceeded()) {
      return Refuse("the model's chat template takes too long for this chat, or never ends",
                    "messages");
    }
    // Both forms count towards the thread's one WorkLimit.
    if (const auto strict = StrictForm(messages)) return Apply(*strict, options);
    return Refuse(RefusalMessage(error.what(), SourceOf(templates_.get())), "messages");
  }
}

Result<std::string> ChatRenderer::Render(const std::vector<ChatMessage>& messages,
                                         const ChatOptions& options) const {
  Result<Rendered> rendered = Apply(messages, options);
  if (!rendered.ok()) return rendered.status();
  return std::move(rendered.value().prompt);
}

Result<std::string> ChatRenderer::GuardFor(const std::vector<ChatMessage>& messages,
                                           const ChatOptions& options) const {
  bool needs_guard = false;
  std::vector<std::string_view> texts;
  ForEachText(messages, options, [&](const std::string& text, TextKind kind) {
    needs_guard = needs_guard || special_text_->NeedsGuard(text, kind);
    texts.emplace_back(text);
  });
  if (!needs_guard) return std::string();
  std::string guard = SpecialText::ChooseGuard(texts);
  if (!guard.empty()) return guard;
  return Refuse(
      "the chat contains all of U+10FF00 to U+10FFFF, one of which is needed to "
      "escape control tokens",
      "messages");
}

Result<ChatPrompt> ChatRenderer::RenderTokens(const std::vector<ChatMessage>& messages,
                                              const ChatOptions& options,
                                              std::uint32_t context_length) const {
  // Rendering megabytes takes seconds.
  if (Status status = model_.CheckLength(LengthKept(messages), context_length); !status.ok()) {
    return status;
  }
  const Result<std::string> found = GuardFor(messages, options);
  if (!found.ok()) return found.status();
  const std::string& guard = found.value();
  const MediaMarks marks(messages);
  if (guard.empty() && marks.empty()) {
    Result<Rendered> plain = Apply(messages, options);
    if (!plain.ok()) return plain.status();
    Result<std::vector<Token>> tokens = model_.Tokenize(plain.value().prompt, /*add_special=*/true,
                                                        /*parse_special=*/true, context_length);
    if (!tokens.ok()) return tokens.status();
    return ChatPrompt{std::move(tokens.value()), std::move(plain.value().format)};
  }

  std::vector<ChatMessage> guarded = messages;
  ChatOptions guarded_options = options;
  const auto change = [&](const std::string& text, TextKind kind) {
    return guard.empty() ? text : special_text_->Guard(text, guard, kind);
  };
  ForEachText(guarded, guarded_options,
              [&](std::string& text, TextKind kind) { text = change(text, kind); });
  for (std::size_t i = 0; i < messages.size(); ++i) {
    guarded[i].content = marks.Content(
        i, [&](const std::string& text) { return change(text, KindOf(messages[i])); });
  }
  Result<Rendered> rendered = Apply(guarded, guarded_options);
  if (!rendered.ok()) return rendered.status();
  if (NeedsAnalysis(messages, options)) {
    // The answer's format is that of the texts as they are.
    Result<Rendered> plain = Apply(messages, options);
    if (!plain.ok()) return plain.status();
    rendered.value().format = std::move(plain.value().format);
  }
  Result<std::vector<Token>> tokens =
      marks.empty() ? special_text_->Tokenize(rendered.value().prompt, guard, context_length)
                    : TokenizeParts(rendered.value().prompt, guard, marks, context_length);
  if (!tokens.ok()) return tokens.status();
  return ChatPrompt{std::move(tokens.value()), std::move(rendered.value().format)};
}

// Tokens of a prompt with pictures and sounds. As libmtmd, tokenizes the texts between them apart.
Result<std::vector<Token>> ChatRenderer::TokenizeParts(std::string_view prompt,
                                                       const std::string& guard,
                                                       const MediaMarks& marks,
                                                       std::uint32_t context_length) const {
  const Result<std::vector<MediaMarks::Part>> parts = marks.Split(prompt);
  if (!parts.ok()) return parts.status();
  const llama_vocab* vocab = model_.vocab();
  std::vector<Token> tokens;
  if (llama_vocab_get_add_bos(vocab)) tokens.push_back(llama_vocab_bos(vocab));
  for (const MediaMarks::Part& part : parts.value()) {
    if (part.media != nullptr) {
      tokens.insert(tokens.end(), part.media->tokens.begin(), part.media->tokens.end());
    } else {
      const Result<std::vector<Token>> text =
          guard.empty() ? model_.Tokenize(std::string(part.text), /*add_special=*/false,
                                          /*parse_special=*/true, context_length)
                        : special_text_->Tokenize(part.text, guard, context_length,
                                                  /*add_special=*/false);
      if (!text.ok()) return text.status();
      tokens.insert(tokens.end(), text.value().begin(), text.value().end());
    }
    if (context_length > 0 && tokens.size() + 1 > context_length) {
      return LlamaModel::TooLong(
          {.prompt_tokens = tokens.size(), .is_minimum = true, .context_length = context_length});
    }
  }
  if (llama_vocab_get_add_eos(vocab)) tokens.push_back(llama_vocab_eos(vocab));
  return tokens;
}

}  // namespace svc
