#include "engine/llama/chat/chat_renderer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "chat.h"
#include "engine/base/json_depth.h"
#include "engine/base/work_limit.h"
#include "engine/llama/chat/content_opening.h"
#include "engine/llama/chat/media_marks.h"
#include "engine/llama/chat/own_calls.h"
#include "engine/llama/chat/template_inputs.h"
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

// Texts of the chat with which a template's tool calls are tried.
constexpr std::array<std::string_view, 4> kTried = {"moon_phase_on", "a day to look at", "q7",
                                                    "waxing gibbous"};

bool HasInOrder(std::string_view prompt, std::initializer_list<std::string_view> texts) {
  std::size_t at = 0;
  return std::ranges::all_of(texts, [&](std::string_view text) {
    at = prompt.find(text, at);
    return at != std::string_view::npos;
  });
}

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

ChatOptions WithTools(ChatOptions options, std::vector<Tool> tools) {
  options.tools = std::move(tools);
  return options;
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
  Result<Templates> templates = InitTemplates(model.get(), chat_template);
  if (!templates.ok()) return templates.status();
  renderer->templates_ = std::move(templates.value().of_prompts);
  renderer->analyzed_ = std::move(templates.value().of_answers);
  renderer->special_text_.emplace(model, SourceOf(renderer->templates_.get()));
  renderer->is_specialized_ = IsSpecialized(renderer->templates_.get());
  renderer->formats_ = std::make_unique<AnswerFormats>(renderer->analyzed_.get());
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
      const common_chat_params found = ApplyTemplates(analyzed_.get(), InputsOf(question, options));
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
  const std::string prompt = Tried(chat, options);
  traits_.writes_calls = HasInOrder(prompt, {"q7", "waxing gibbous"});
  LearnTraits(chat, options);
  const auto apply = [this](const common_chat_templates_inputs& inputs) {
    return ApplyTemplates(analyzed_.get(), inputs);
  };
  const bool is_rendered = std::ranges::all_of(
      kTried, [&](std::string_view part) { return prompt.find(part) != std::string::npos; });
  if (!is_rendered) return;
  try {
    common_chat_templates_inputs inputs = InputsOf(chat, options);
    inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    if (apply(inputs).grammar.empty()) return;
    const common_chat_templates_inputs question = InputsOf({chat.front()}, options);
    const auto format = MakeAnswerFormat(apply(question), options);
    calls_tools_ = format.ok() && OwnCalls(analyzed_.get(), question, format.value(),
                                           {{call.name, call.arguments, call.id}})
                                      .has_value();
  } catch (const std::exception&) {
    // The template refuses such a chat.
  }
}

// The other traits. `called`: a chat with a call and its result.
void ChatRenderer::LearnTraits(std::vector<ChatMessage> called, const ChatOptions& options) {
  const std::string systems = Tried(
      {{"system", "q1"}, {"user", "q2"}, {"assistant", "q3"}, {"system", "q4"}, {"user", "q5"}},
      {});
  traits_.writes_late_systems = HasInOrder(systems, {"q1", "q2", "q3", "q4", "q5"});
  const auto answer = called.begin() + 1;
  answer->tool_calls.push_back(answer->tool_calls.front());
  answer->tool_calls.back().id = "jklmnopqr";
  answer->tool_calls.back().arguments = R"({"day":"q8"})";
  called.insert(called.begin() + 3,
                {.role = "tool", .content = "waning crescent", .tool_call_id = "jklmnopqr"});
  traits_.writes_several_calls =
      traits_.writes_calls && HasInOrder(Tried(called, options), {"q8", "waning crescent"});
}

std::string ChatRenderer::Tried(const std::vector<ChatMessage>& messages,
                                const ChatOptions& options) const {
  try {
    return ApplyTemplates(templates_.get(), InputsOf(messages, options)).prompt;
  } catch (const std::exception&) {
    return {};
  }
}

common_chat_templates_inputs ChatRenderer::InputsOf(const std::vector<ChatMessage>& messages,
                                                    const ChatOptions& options) const {
  return TemplateInputs(messages, options, knows_efforts_);
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

// Options with which the answer is read: the prompt lists all tools, so that its prefix stays the
// same, but the answer may have to call one of them; and the template may have no form for several
// calls in the next turn.
ChatOptions ChatRenderer::OptionsOfAnswer(const ChatOptions& options) const {
  ChatOptions of_answer = options;
  of_answer.parallel_tool_calls = options.parallel_tool_calls && traits_.writes_several_calls;
  of_answer.tool_name.clear();
  if (!options.tool_name.empty()) {
    std::erase_if(of_answer.tools,
                  [&](const Tool& tool) { return tool.name != options.tool_name; });
  }
  return of_answer;
}

// Renders the prompt with as little analysis as its text allows: some templates have code of their
// own in llama.cpp, which changes chats before it renders them, and so does the analysis with a
// message that is continued.
common_chat_params ChatRenderer::PromptOf(const Chat& chat) const {
  common_chat_templates_inputs inputs = InputsOf(chat.messages, chat.options);
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
  inputs.force_pure_content = !NeedsAnalysis(chat.messages, chat.options) ||
                              (!is_specialized_ && !chat.options.continue_last);
  return ApplyTemplates(templates_.get(), inputs);
}

template <typename Form>
std::optional<Result<ChatRenderer::Rendered>> ChatRenderer::ApplyIn(Form form, const Chat& chat,
                                                                    const Chat& shown) const {
  const std::optional<std::vector<ChatMessage>> messages = form(chat.messages);
  if (!messages) return std::nullopt;
  const Chat formed = {*messages, chat.options};
  if (&chat == &shown) return Apply(formed, formed);
  const std::vector<ChatMessage> shown_messages = form(shown.messages).value_or(shown.messages);
  return Apply(formed, {shown_messages, shown.options});
}

Result<ChatRenderer::Rendered> ChatRenderer::Apply(const Chat& chat, const Chat& shown) const {
  if (Status status = Check(chat.messages, chat.options); !status.ok()) return status;
  const auto whole = [this](const std::vector<ChatMessage>& messages) {
    return WholeForm(messages, traits_);
  };
  if (auto rendered = ApplyIn(whole, chat, shown)) return std::move(*rendered);
  try {
    common_chat_params prompt = PromptOf(shown);
    if (!NeedsAnalysis(chat.messages, chat.options)) {
      return Rendered{std::move(prompt.prompt), Thinks(chat.options) ? thinking_ : answering_};
    }
    const ChatOptions options = OptionsOfAnswer(chat.options);
    auto kept = formats_->Kept(options, prompt.generation_prompt);
    if (kept != nullptr) return Rendered{std::move(prompt.prompt), std::move(kept)};
    common_chat_templates_inputs inputs = InputsOf(chat.messages, options);
    Simplify(&inputs.tools);
    auto format = formats_->Find(ApplyTemplates(analyzed_.get(), inputs), inputs, options);
    if (!format.ok()) return format.status();
    return Rendered{std::move(prompt.prompt), std::move(format.value())};
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
    // All forms count towards the thread's one WorkLimit.
    if (auto rendered = ApplyIn(StrictForm, chat, shown)) return std::move(*rendered);
    if (auto rendered = ApplyIn(MistralForm, chat, shown)) return std::move(*rendered);
    if (const auto simple = SimpleForm(chat.options.tools)) {
      const ChatOptions options = WithTools(chat.options, *simple);
      const Chat simple_chat = {chat.messages, options};
      if (&chat == &shown) return Apply(simple_chat, simple_chat);
      const auto simple_shown = SimpleForm(shown.options.tools);
      return Apply(
          simple_chat,
          {shown.messages, WithTools(shown.options, simple_shown.value_or(shown.options.tools))});
    }
    return Refuse(RefusalMessage(error.what(), SourceOf(templates_.get())), "messages");
  }
}

Result<std::string> ChatRenderer::Render(const std::vector<ChatMessage>& messages,
                                         const ChatOptions& options) const {
  const Chat chat = {messages, options};
  Result<Rendered> rendered = Apply(chat, chat);
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
  const Chat chat = {messages, options};
  if (guard.empty() && marks.empty()) {
    Result<Rendered> plain = Apply(chat, chat);
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
  Result<Rendered> rendered = Apply(chat, {guarded, guarded_options});
  if (!rendered.ok()) return rendered.status();
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
