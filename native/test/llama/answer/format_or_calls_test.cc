// Every chat template of llama.cpp's tree: an answer that has an output format and
// may call tools is a text of that format or a call, in both cases also behind a reasoning.
#include <algorithm>
#include <set>

#include "answer_test.h"
#include "engine/base/thread_clock.h"
#include "engine/llama/answer/answer_rules.h"
#include "engine/llama/answer/content_opening.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/chat/own_calls.h"
#include "engine/llama/chat/tools_as_text.h"
#include "engine/llama/sampler.h"
#include "grammar_walker.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

// Its rules have the names of those of calls.
constexpr const char* kFormat = R"gbnf(# An object: root ::= "{"
root ::= "{\"a\": " tool-call{1,3} [}root]
tool-call ::= [0-9\]]
)gbnf";
constexpr const char* kText = R"({"a": 12})";

ChatOptions Options(ReasoningEffort effort) {
  ChatOptions options;
  options.tools = {
      {.name = "moon_phase_on",
       .description = "Phase of the moon",
       .parameters = R"({"type":"object","properties":{"day":{"type":"string"}},)"
                     R"("required":["day"]})",
       .grammar =
           "arguments-0-root ::= \"{\\\"day\\\":\" \" \"? \"\\\"\" arguments-0-day \"\\\"}\"\n"
           "arguments-0-json ::= \"\\\"\" arguments-0-day \"\\\"\"\n"
           "arguments-0-day ::= \"q\" [0-9]{1,2}",
       .tagged_grammar = "tagged-0-root ::= \"{day:<|\\\"|>q\" [0-9]{1,2} \"<|\\\"|>}\"",
       .arguments = {{{.name = "day",
                       .required = true,
                       .json = "arguments-0-json",
                       .text = "arguments-0-day"}}},
       .strict = true}};
  options.reasoning_effort = effort;
  options.has_output_format = true;
  return options;
}

// The text that the constraint refuses; empty: none.
std::string Refused(const LlamaModel& model, AnswerConstraint& constraint,
                    const std::string& text) {
  for (const Token token : TokenizerWithin(model)(text)) {
    if (!constraint.Accept(token)) return model.Piece(token, /*special=*/false);
  }
  return "";
}

// Formats whose tags for reasoning are read only in some prompts.
const std::set<std::string> kReadsNoReasoning = {"LFM2-8B-A1B.jinja", "LFM2.5-Instruct.jinja",
                                                 "tencent-Hy3.jinja"};
// A format whose tags for reasoning are read only if an effort is asked for.
constexpr const char* kReasoningIsOptional = "tencent-Hy3.jinja";

// Templates that write arguments otherwise than the tool's grammar does, in Python's quotes or on
// several lines, or (Kimi K3) an empty content before the calls.
const std::set<std::string> kWritesOtherwise = {
    "LFM2.5-8B-A1B.jinja", "CohereForAI-c4ai-command-r-plus-tool_use.jinja", "Kimi-K3.jinja"};
// Most bytes of the end of the turn that may follow a call in a history.
constexpr std::size_t kLongestEnd = 24;

// What a model may write before its content or call: nothing or, where it can, a reasoning.
std::vector<std::string> Thoughts(const AnswerFormat& format, bool thinks) {
  if (format.thinking_ends.empty()) return {""};
  const std::string thought = "Hm" + format.thinking_ends.front();
  if (OpensThinking(format)) return {thought};
  if (!thinks) return {""};
  return {"", format.thinking_start + thought};
}

// Checks the answers to one prompt.
class Prompt {
 public:
  Prompt(const LlamaModel& model, std::string name, std::shared_ptr<const AnswerFormat> format)
      : model_(model), maker_(model), name_(std::move(name)), format_(std::move(format)) {}

  void ExpectContent(const std::string& thought) {
    const ContentOpening texts = OpeningOf(*format_);
    const std::string text =
        thought + (thought.empty() ? texts.at_once : texts.after_reasoning) + kText;
    const test::Answer answer = Read(text, /*is_ended=*/true);
    if (answer.content != kText || !answer.calls.empty()) Fail(text, test::Show(answer));
    test::ExpectTheSameWhereverItIsCut(name_.c_str(), 0, format_, text);
  }

  // Any other text is refused.
  void ExpectNoOtherText(const std::string& thought) {
    auto constraint = Begin();
    const std::string refused =
        Refused(model_, *constraint, thought + (thought.empty() ? "" : "\n") + "Well, {");
    if (refused.empty()) Fail(thought, "may go on with any text");
  }

  void ExpectCalls(const std::string& thought, std::size_t count) {
    const auto grammar = CompileGrammar(format_->calls_beside_format);
    REQUIRE(grammar.ok());
    test::Walker walker(*grammar.value()->automaton, {"q7"});
    const std::string before =
        thought + (thought.empty() ? "" : OpeningOf(*format_).message_after_reasoning);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string call = walker.Walk("");
      if (!walker.is_complete()) continue;
      const test::Answer answer = Read(before + call, /*is_ended=*/false);
      if (answer.calls.empty() || !answer.content.empty()) Fail(call, test::Show(answer));
      for (const ToolCall& made : answer.calls) {
        const bool is_valid = made.arguments.find("\"q") != std::string::npos;
        if (!is_valid) Fail(call, made.arguments);
      }
      ++calls;
    }
  }

  // The call as the template itself writes it.
  void ExpectOwnCall(const std::string& thought, const std::string& call) {
    const bool is_ended = !thought.empty() && !thought.ends_with("Hm");
    const std::string text =
        thought + (is_ended ? OpeningOf(*format_).message_after_reasoning : "") + call;
    auto constraint = Begin();
    std::string allowed;
    std::string whole;  // may be an answer
    // Alone, so that no token joins the last tag with what follows.
    for (const std::string_view character : test::Characters(text)) {
      if (!Refused(model_, *constraint, std::string(character)).empty()) break;
      allowed += character;
      if (MayEnd(*constraint)) whole = allowed;
    }
    const test::Answer answer = test::ReadPieces(format_, {whole});
    const bool is_read = answer.calls.size() == 1 && answer.content.empty();
    if (!is_read || text.size() - whole.size() > kLongestEnd) {
      Fail(text, "\"" + allowed + "\" is allowed");
    }
  }

  // Behind each end of the reasoning, an answer that is allowed and ends is a text of the format,
  // and nothing else. `call`: as the template itself writes it; some ends are in it.
  void ExpectAfterEachEnd(const std::string& call) {
    const std::string begun = (OpensThinking(*format_) ? "" : format_->thinking_start) + "Hm";
    for (const std::string& end : format_->thinking_ends) {
      const std::size_t lines = end.find_first_not_of('\n');
      const std::size_t at = call.find(end.substr(lines));
      bool is_found = at != std::string::npos;
      if (is_found) ExpectOwnCall(begun, end.substr(0, lines) + call.substr(at));
      // Without tools, the mark of a call in a reasoning begins a content that has no format.
      const bool is_mark = end.find("tool_call") != std::string::npos ||
                           end.find("function_call") != std::string::npos;
      if (call.empty() && is_mark) continue;
      for (const std::string& opening : {std::string(), OpeningOf(*format_).after_reasoning}) {
        const std::string text = begun + end + opening + kText;
        auto constraint = Begin();
        bool is_allowed = true;
        for (const std::string_view each : test::Characters(text)) {
          is_allowed = is_allowed && Refused(model_, *constraint, std::string(each)).empty();
        }
        if (!is_allowed || !constraint->ended()) continue;
        is_found = true;
        const test::Answer answer = test::ReadPieces(format_, {text});
        if (answer.content != kText) Fail(text, test::Show(answer));
      }
      if (!is_found) Fail(end, "nothing may follow");
      ++ends;
    }
  }

  std::size_t calls = 0;
  std::size_t ends = 0;  // of reasoning

 private:
  void Fail(const std::string& text, const std::string& why) {
    test::Fail(name_.c_str(), 0, text + "\n  -> " + why);
  }

  std::unique_ptr<AnswerConstraint> Begin() {
    auto rules = maker_.Make(format_, kFormat, std::nullopt);
    if (!rules.ok()) Fail("rules", rules.status().message());
    rules.value().constraint->Begin();
    return std::move(rules.value().constraint);
  }

  bool MayEnd(const AnswerConstraint& constraint) const {
    return constraint.ended() || constraint.Allows(llama_vocab_eos(model_.vocab()));
  }

  // What is read of a text that the constraint allows and that may end there.
  test::Answer Read(const std::string& text, bool is_ended) {
    auto constraint = Begin();
    const std::string refused = Refused(model_, *constraint, text);
    if (!refused.empty()) Fail(text, "refuses " + refused);
    if (is_ended ? !constraint->ended() : !MayEnd(*constraint)) Fail(text, "may not end");
    return test::ReadPieces(format_, {text});
  }

  const LlamaModel& model_;
  AnswerRulesMaker maker_;
  const std::string name_;
  const std::shared_ptr<const AnswerFormat> format_;
};

// A call in the history of a chat, without the end of the reasoning before it; empty: the template
// writes none.
std::string OwnCall(const test::Template& each, const ChatRenderer& renderer) {
  ChatOptions options = Options(ReasoningEffort::kNone);
  const std::string arguments = R"({"day":"q7"})";
  if (!renderer.calls_tools()) {
    return CallText({.name = options.tools.front().name, .arguments = arguments});
  }
  options.tools.front().strict = false;
  common_chat_templates_inputs question;
  question.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  question.enable_thinking = false;
  question.messages.emplace_back();
  question.messages.back().role = "user";
  question.messages.back().content = "Which phase?";
  const Tool& tool = options.tools.front();
  question.tools.push_back({tool.name, tool.description, tool.parameters});
  const auto format =
      MakeAnswerFormat(common_chat_templates_apply(each.parsed.get(), question), options);
  if (!format.ok()) return "";
  const auto call =
      OwnCalls(each.parsed.get(), question, format.value(), {{tool.name, arguments, "abcdefghi"}});
  const std::string before =
      OpensThinking(*format.value()) ? "I think" + format.value()->thinking_ends.front() : "";
  const std::string written = call.value_or(before).substr(before.size());
  return written.substr(std::min(written.find_first_not_of('\n'), written.size()));
}

TEST(AnAnswerIsATextOfTheFormatOrACall) {
  // Its vocabulary can write every character, with which tags are written here.
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  std::set<std::string> refusing;
  std::size_t prompts = 0;
  std::size_t calls = 0;
  std::size_t ends = 0;
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    if (!renderer.value()->takes_tools()) continue;
    const std::string own = OwnCall(each, *renderer.value());
    EXPECT(!own.empty());
    for (const bool thinks : {false, true}) {
      const auto effort = thinks ? ReasoningEffort::kDefault : ReasoningEffort::kNone;
      const auto made = renderer.value()->RenderTokens({{"user", "Which phase?"}}, Options(effort));
      if (!made.ok()) {
        refusing.insert(each.name);
        EXPECT_EQ(made.status().param(), "format");
        continue;
      }
      Prompt prompt(*model, each.name, made.value().format);
      for (const std::string& thought :
           Thoughts(*made.value().format, thinks && each.name != kReasoningIsOptional)) {
        prompt.ExpectContent(thought);
        prompt.ExpectNoOtherText(thought);
        const std::string& start = made.value().format->thinking_start;
        const bool has_thought = !start.empty() && own.starts_with(start);
        if (!kWritesOtherwise.contains(each.name)) {
          prompt.ExpectOwnCall(has_thought ? "" : thought, own);
        }
        prompt.ExpectCalls(thought, test::kSanitized ? 2 : 10);
      }
      if (thinks && each.name != kReasoningIsOptional) prompt.ExpectAfterEachEnd(own);
      ++prompts;
      calls += prompt.calls;
      ends += prompt.ends;
    }
  }
  std::printf("%zu prompts, %zu calls, %zu ends of a reasoning\n", prompts, calls, ends);
  EXPECT(prompts >= 134 && calls >= prompts);
  // Its prompt ends with the mark of a call.
  EXPECT(refusing == std::set<std::string>{"meetkai-functionary-medium-v3.2.jinja"});
}

const test::Template& TemplateOf(const std::string& name) {
  static const std::vector<test::Template> all = test::Templates();
  return *std::ranges::find(all, name, &test::Template::name);
}

// Without tools, too, an answer is a text of its format behind each end of its reasoning.
TEST(AnyEndOfAReasoningIsFollowedByTheFormat) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  std::size_t ends = 0;
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    const auto made = renderer.value()->RenderTokens({{"user", "Which phase?"}});
    if (!made.ok() || made.value().format->thinking_ends.empty()) continue;
    if (kReadsNoReasoning.contains(each.name)) continue;
    Prompt prompt(*model, each.name, made.value().format);
    prompt.ExpectAfterEachEnd("");
    ends += prompt.ends;
  }
  std::printf("%zu ends\n", ends);
  EXPECT(ends >= 35);
}

// Its marks are patterns, for which a search of the whole text would take hours.
TEST(ALongTextIsContinuedAtTheCostOfReadingIt) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(*model, TemplateOf("openai-gpt-oss-120b.jinja").source);
  REQUIRE(renderer.ok());
  const auto seconds = [&](std::size_t bytes) {
    ChatOptions options = Options(ReasoningEffort::kDefault);
    options.continue_last = true;
    const double from = ThreadCpuSeconds();
    for (const bool has_output_format : {false, true}) {
      options.has_output_format = has_output_format;
      const std::string begun = "<|start|>assistant" + std::string(bytes, ' ');
      EXPECT(renderer.value()->Render({{"user", "Go on"}, {"assistant", begun}}, options).ok());
    }
    return ThreadCpuSeconds() - from;
  };
  const double brief = seconds(std::size_t{8} << 10U);
  const double lengthy = seconds(std::size_t{1} << 20U);
  std::printf("%.3f s and %.3f s\n", brief, lengthy);
  EXPECT(lengthy < 1000 * brief);
}

TEST(ATextThatQuotesTheMarkOfACallCanBeContinued) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(*model, TemplateOf("openbmb-MiniCPM5-1B.jinja").source);
  REQUIRE(renderer.ok());
  ChatOptions options = Options(ReasoningEffort::kNone);
  options.continue_last = true;
  for (const bool has_output_format : {false, true}) {
    options.has_output_format = has_output_format;
    const auto made = renderer.value()->RenderTokens(
        {{"user", "Write C++"}, {"assistant", "#include <functional>"}}, options);
    REQUIRE(made.ok());
    EXPECT_EQ(made.value().format->trigger.has_value(), !has_output_format);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
