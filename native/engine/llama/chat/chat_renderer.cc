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
#include "engine/llama/chat/media_marks.h"
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
  SVC_ASSIGN_OR_RETURN(renderer->templates_, InitTemplates(model.get(), chat_template));
  const Templates& templates = renderer->templates_;
  renderer->special_text_.emplace(model,
                                  SourceOf(templates.of_prompts.get()) + ToolsAsText::Tags());
  TemplateTraits& traits = renderer->traits_ = LearnTraits(templates);
  renderer->formats_ = std::make_unique<AnswerFormats>(templates.of_answers.get(), traits.stop);
  if (!traits.calls_tools) renderer->tools_as_text_ = ToolsAsText::New(templates, traits);
  // Calls of earlier answers then have the same form as those of the next.
  if (renderer->tools_as_text_ != nullptr) traits.writes_calls = false;
  return renderer;
}

common_chat_templates_inputs ChatRenderer::InputsOf(const std::vector<ChatMessage>& messages,
                                                    const ChatOptions& options) const {
  return TemplateInputs(messages, options, traits_.knows_efforts);
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
  if (!takes_tools() && !options.tools.empty() && options.tool_choice != ToolChoice::kNone) {
    return Refuse("this model's chat template has no form for tool calls", "tools");
  }
  if (!thinks() && options.reasoning_effort > ReasoningEffort::kNone) {
    return Refuse("this model's chat template has no reasoning", "reasoning_effort");
  }
  if (traits_.thinking->thinking_ends.empty() && options.reasoning_budget_tokens.value_or(0) > 0) {
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
  if (!thinks() || (!Thinks(options) && traits_.can_answer_at_once)) return std::nullopt;
  if (options.reasoning_budget_tokens) return options.reasoning_budget_tokens;
  if (!Thinks(options) || !traits_.knows_efforts) return BudgetOfEffort(options.reasoning_effort);
  return std::nullopt;
}

bool ChatRenderer::ListsToolsAsText(const ChatOptions& options) const {
  return tools_as_text_ != nullptr && !options.tools.empty();
}

// Options with which the answer is read: the prompt lists all tools, so that its prefix stays the
// same, but the answer may have to call one of them; and the template may have no form for several
// calls in the next turn.
ChatOptions ChatRenderer::OptionsOfAnswer(const ChatOptions& options) const {
  ChatOptions of_answer = options;
  of_answer.parallel_tool_calls =
      options.parallel_tool_calls && (traits_.writes_several_calls || tools_as_text_ != nullptr);
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
  if (ListsToolsAsText(chat.options)) inputs.tools.clear();
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
  inputs.force_pure_content = !NeedsAnalysis(chat.messages, chat.options) ||
                              (!traits_.is_specialized && !chat.options.continue_last);
  return ApplyTemplates(templates_.of_prompts.get(), inputs);
}

Result<std::shared_ptr<const AnswerFormat>> ChatRenderer::FormatOf(
    const Chat& chat, std::string_view generation_prompt) const {
  const ChatOptions options = OptionsOfAnswer(chat.options);
  if (ListsToolsAsText(options)) return tools_as_text_->FormatOf(chat.messages.back(), options);
  auto kept = formats_->Kept(options, generation_prompt);
  if (kept != nullptr) return kept;
  common_chat_templates_inputs inputs = InputsOf(chat.messages, options);
  Simplify(&inputs.tools);
  return formats_->Find(ApplyTemplates(templates_.of_answers.get(), inputs), inputs, options);
}

template <typename Form>
std::optional<Result<ChatRenderer::Rendered>> ChatRenderer::ApplyIn(Form form, const Chat& chat,
                                                                    const Chat& shown) const {
  const std::optional<std::vector<ChatMessage>> messages = form(chat.messages);
  if (!messages) return std::nullopt;
  const Chat formed = {*messages, chat.options};
  if (&chat == &shown) return ApplyForms(formed, formed);
  const std::vector<ChatMessage> shown_messages = form(shown.messages).value_or(shown.messages);
  return ApplyForms(formed, {shown_messages, shown.options});
}

Result<ChatRenderer::Rendered> ChatRenderer::Apply(const Chat& chat, const Chat& shown) const {
  SVC_RETURN_IF_ERROR(Check(chat.messages, chat.options));
  if (!ListsToolsAsText(chat.options)) return ApplyForms(chat, shown);
  const auto listed = ToolsAsText::WithList(chat.messages, chat.options.tools);
  const auto shown_listed = ToolsAsText::WithList(shown.messages, shown.options.tools);
  return ApplyForms({listed, chat.options}, {shown_listed, shown.options});
}

Result<ChatRenderer::Rendered> ChatRenderer::ApplyForms(const Chat& chat, const Chat& shown) const {
  const auto whole = [this](const std::vector<ChatMessage>& messages) {
    return WholeForm(messages, traits_);
  };
  if (auto rendered = ApplyIn(whole, chat, shown)) return std::move(*rendered);
  try {
    common_chat_params prompt = PromptOf(shown);
    if (!NeedsAnalysis(chat.messages, chat.options)) {
      return Rendered{std::move(prompt.prompt),
                      Thinks(chat.options) ? traits_.thinking : traits_.answering};
    }
    SVC_ASSIGN_OR_RETURN(auto format, FormatOf(chat, prompt.generation_prompt));
    return Rendered{std::move(prompt.prompt), std::move(format)};
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
      if (&chat == &shown) return ApplyForms(simple_chat, simple_chat);
      const auto simple_shown = SimpleForm(shown.options.tools);
      return ApplyForms(
          simple_chat,
          {shown.messages, WithTools(shown.options, simple_shown.value_or(shown.options.tools))});
    }
    return Refuse(RefusalMessage(error.what(), SourceOf(templates_.of_prompts.get())), "messages");
  }
}

Result<std::string> ChatRenderer::Render(const std::vector<ChatMessage>& messages,
                                         const ChatOptions& options) const {
  const Chat chat = {messages, options};
  SVC_ASSIGN_OR_RETURN(Rendered rendered, Apply(chat, chat));
  return std::move(rendered.prompt);
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
  SVC_RETURN_IF_ERROR(model_.CheckLength(LengthKept(messages), context_length));
  SVC_ASSIGN_OR_RETURN(const std::string guard, GuardFor(messages, options));
  const MediaMarks marks(messages);
  const Chat chat = {messages, options};
  if (guard.empty() && marks.empty()) {
    SVC_ASSIGN_OR_RETURN(Rendered plain, Apply(chat, chat));
    SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens,
                         model_.Tokenize(plain.prompt, /*add_special=*/true, /*parse_special=*/true,
                                         context_length));
    return ChatPrompt{std::move(tokens), std::move(plain.format)};
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
  SVC_ASSIGN_OR_RETURN(Rendered rendered, Apply(chat, {guarded, guarded_options}));
  SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens,
                       marks.empty()
                           ? special_text_->Tokenize(rendered.prompt, guard, context_length)
                           : TokenizeParts(rendered.prompt, guard, marks, context_length));
  return ChatPrompt{std::move(tokens), std::move(rendered.format)};
}

// Tokens of a prompt with pictures and sounds. As libmtmd, tokenizes the texts between them apart.
Result<std::vector<Token>> ChatRenderer::TokenizeParts(std::string_view prompt,
                                                       const std::string& guard,
                                                       const MediaMarks& marks,
                                                       std::uint32_t context_length) const {
  SVC_ASSIGN_OR_RETURN(const std::vector<MediaMarks::Part> parts, marks.Split(prompt));
  const llama_vocab* vocab = model_.vocab();
  std::vector<Token> tokens;
  if (llama_vocab_get_add_bos(vocab)) tokens.push_back(llama_vocab_bos(vocab));
  for (const MediaMarks::Part& part : parts) {
    if (part.media != nullptr) {
      tokens.insert(tokens.end(), part.media->tokens.begin(), part.media->tokens.end());
    } else {
      SVC_ASSIGN_OR_RETURN(
          const std::vector<Token> text,
          guard.empty()
              ? model_.Tokenize(std::string(part.text), /*add_special=*/false,
                                /*parse_special=*/true, context_length)
              : special_text_->Tokenize(part.text, guard, context_length, /*add_special=*/false));
      tokens.insert(tokens.end(), text.begin(), text.end());
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
