// With every chat template of llama.cpp's tree that has no form for tools, and with others that
// models are known to have: the model is shown the tools and how to call them, and its calls are
// read.
#include "engine/llama/chat/tools_as_text.h"

#include "answer.h"
#include "engine/llama/answer/answer_stream.h"
#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "test.h"
#include "tool_templates.h"

namespace svc {
namespace {

using Chat = std::vector<ChatMessage>;
using Format = std::shared_ptr<const AnswerFormat>;

const std::string kSchema =
    R"({"type":"object","properties":{"day":{"type":"string"}},"required":["day"]})";

ChatOptions Options(ReasoningEffort effort = ReasoningEffort::kNone) {
  ChatOptions options;
  options.reasoning_effort = effort;
  options.tools = {{.name = "moon_phase",
                    .description = "Phase \"of\" the\nmoon",
                    .parameters = kSchema,
                    .grammar = R"(m-root ::= "{\"day\": \"" [a-z0-9]+ "\"}")"},
                   {.name = "wait", .description = "", .parameters = "{}"}};
  return options;
}

const ToolCall kCall = {.id = "1", .name = "moon_phase", .arguments = R"({"day": "q7"})"};
const ToolCall kOther = {.id = "2", .name = "wait", .arguments = "{}"};

test::Answer Read(const Format& format, const std::string& text) {
  AnswerStream stream(format);
  test::Answer answer;
  GenerationOutput output;
  stream.Read(text, /*last=*/true, &output);
  answer.Add(output);
  return answer;
}

std::unique_ptr<ChatRenderer> RendererOf(const LlamaModel& model, const std::string& source) {
  auto renderer = ChatRenderer::New(model, source);
  if (renderer.ok()) return std::move(renderer.value());
  test::Fail(__FILE__, __LINE__, renderer.status().message());
  return nullptr;
}

// The prompt lists the tools once, behind the system message, and has all of the chat.
void CheckPrompt(const char* name, const ChatRenderer& renderer) {
  const Chat chat = {{"system", "T0"},
                     {"user", "T1"},
                     {.role = "assistant", .content = "T2", .tool_calls = {kCall, kOther}},
                     {.role = "tool", .content = "T3", .tool_call_id = "1"},
                     {.role = "tool", .content = "T4", .tool_call_id = "2"}};
  const auto prompt = renderer.Render(chat, Options());
  if (!prompt.ok()) return test::Fail(name, 0, prompt.status().message());
  std::size_t at = 0;
  for (const std::string& text :
       {std::string("T0\n\n# Tools"),
        R"({"type":"function","function":{"name":"moon_phase",)"
        R"("description":"Phase \"of\" the\nmoon","parameters":)" +
            kSchema + "}}\n",
        std::string(R"({"type":"function","function":{"name":"wait","parameters":{}}})"),
        std::string("T1"), "T2\n\n" + CallText(kCall) + "\n\n" + CallText(kOther),
        ResultText("T3") + "\n\n" + ResultText("T4")}) {
    at = prompt.value().find(text, at);
    if (at == std::string::npos) return test::Fail(name, 0, "no " + text + " in " + prompt.value());
  }
  if (prompt.value().find("# Tools", prompt.value().find("# Tools") + 1) != std::string::npos) {
    test::Fail(name, 0, "the tools twice");
  }
}

// An answer with a reasoning, where the template has one, a content and calls is read.
void CheckAnswer(const char* name, const ChatRenderer& renderer, ReasoningEffort effort) {
  const Chat chat = {{"user", "Which phase?"}};
  const auto rendered = renderer.RenderTokens(chat, Options(effort));
  if (!rendered.ok()) return test::Fail(name, 0, rendered.status().message());
  const AnswerFormat& format = *rendered.value().format;
  const auto plain = renderer.Render(chat, [&] {
    ChatOptions without = Options(effort);
    without.tools.clear();
    return without;
  }());
  if (!plain.value().ends_with(format.generation_prompt)) {
    test::Fail(
        name, 0,
        "another end of the prompt: \"" + format.generation_prompt + "\" for " + plain.value());
  }
  const bool reasons =
      OpensThinking(format) || (renderer.thinks() && effort == ReasoningEffort::kDefault);
  const std::string thought = !reasons ? ""
                                       : (OpensThinking(format) ? "" : format.thinking_start) +
                                             "Hm." + format.thinking_ends.front();
  const test::Answer answer = Read(rendered.value().format,
                                   thought + "Well.\n" + CallText(kCall) + "\n" + CallText(kOther));
  const bool is_read = answer.content == "Well.\n" && answer.reasoning == (reasons ? "Hm." : "") &&
                       answer.calls.size() == 2 && answer.calls[0].name == kCall.name &&
                       answer.calls[0].arguments == kCall.arguments &&
                       answer.calls[1].name == kOther.name && answer.is_sound;
  if (!is_read) test::Fail(name, 0, test::Show(answer));
  const test::Answer text = Read(rendered.value().format, thought + "Just <text> {\"name\": 1}");
  if (text.content != "Just <text> {\"name\": 1}") test::Fail(name, 0, test::Show(text));
  EXPECT(format.trigger.has_value() && !format.grammar.empty());
}

void CheckTemplate(const char* name, const ChatRenderer& renderer) {
  if (!renderer.takes_tools()) return test::Fail(name, 0, "takes no tools");
  CheckPrompt(name, renderer);
  CheckAnswer(name, renderer, ReasoningEffort::kNone);
  CheckAnswer(name, renderer, ReasoningEffort::kDefault);
}

TEST(TemplatesWithoutAFormForToolsTakeThem) {
  const auto is_one = [](const ChatRenderer& renderer) { return !renderer.calls_tools(); };
  const std::size_t checked =
      test::ForEachTemplate(is_one, [](const test::Template& each, const ChatRenderer& renderer) {
        CheckTemplate(each.name.c_str(), renderer);
      });
  EXPECT(checked >= 12);
}

// As in the files of Gemma 3 (a system message begins the first text of the user), Mistral 7B (it
// refuses one) and Zephyr; and the form of models without a template.
TEST(SoDoOthers) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::string gemma3 =
      "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
      "{%- set first = messages[0]['content'] + '\n\n' -%}{%- set rest = messages[1:] -%}"
      "{%- else -%}{%- set first = '' -%}{%- set rest = messages -%}{%- endif -%}"
      "{%- for m in rest -%}{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
      "{{ raise_exception('Roles must alternate') }}{%- endif -%}"
      "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + "
      "(first if loop.first else '') + m['content'] | trim + '<end_of_turn>\n' }}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}";
  const std::string mistral =
      "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) "
      "%}{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
      "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
      "{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token }}"
      "{% else %}{{ raise_exception('Only user and assistant roles') }}{% endif %}{% endfor %}";
  const std::string zephyr =
      "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + eos_token + '\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}";
  for (const std::string& source : {gemma3, mistral, zephyr}) {
    const auto renderer = RendererOf(*model, source);
    REQUIRE(renderer != nullptr);
    EXPECT(!renderer->calls_tools());
    CheckTemplate(source.substr(0, 40).c_str(), *renderer);
  }
  for (const std::string& path : test::TinyModels()) {
    const auto own = test::LoadTinyModel(path);
    const auto renderer = RendererOf(*own, "");
    if (!renderer->calls_tools()) CheckTemplate(path.c_str(), *renderer);
  }
}

TEST(AModelThatWouldNotSeeTheToolsRefusesThem) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  const auto renderer = RendererOf(*model, "{{ messages | length }} messages");
  EXPECT(!renderer->takes_tools());
  const Status status = renderer->RenderTokens({{"user", "Hi"}}, Options()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(status.param(), "tools");
  ChatOptions none = Options();
  none.tool_choice = ToolChoice::kNone;
  EXPECT(renderer->RenderTokens({{"user", "Hi"}}, none).ok());
}

TEST(OptionsOfCallsHold) {
  const auto model = test::LoadTinyModel(test::ModelPath("tiny-gemma2"));
  REQUIRE(model != nullptr);
  const auto renderer = RendererOf(*model, "");
  const auto format = [&](const ChatOptions& options, const Chat& chat = {{"user", "Hi"}}) {
    auto rendered = renderer->RenderTokens(chat, options);
    EXPECT(rendered.ok());
    return rendered.ok() ? rendered.value().format : std::make_shared<AnswerFormat>();
  };
  const std::string prompt = renderer->Render({{"user", "Hi"}}, Options()).value();
  ChatOptions options = Options();
  options.tool_choice = ToolChoice::kNone;
  EXPECT(format(options)->grammar.empty());
  EXPECT_EQ(renderer->Render({{"user", "Hi"}}, options).value(), prompt);
  options.tool_choice = ToolChoice::kRequired;
  options.tool_name = "wait";
  EXPECT(!format(options)->trigger.has_value());
  EXPECT_EQ(format(options)->grammar.find("moon_phase"), std::string::npos);
  EXPECT_EQ(renderer->Render({{"user", "Hi"}}, options).value(), prompt);
  // A message that is continued.
  options = Options();
  options.continue_last = true;
  const Chat chat = {{"user", "Hi"}, {"assistant", "Well,"}};
  EXPECT(renderer->Render(chat, options).value().ends_with("Well,"));
  const Format continued = format(options, chat);
  EXPECT_EQ(continued->continued, "Well,");
  const test::Answer answer = Read(continued, " now.\n" + CallText(kCall));
  EXPECT_EQ(answer.content, " now.\n");
  EXPECT_EQ(answer.calls.size(), 1U);
}

// What a tool or its result says is text, also where it reads like the tags around it.
TEST(NothingThatAToolSaysIsAControlToken) {
  for (const char* const name : {"tiny-gemma2", "tiny-llama"}) {
    const auto model = test::LoadTinyModel(test::ModelPath(name));
    REQUIRE(model != nullptr);
    const auto renderer = RendererOf(*model, "");
    const auto controls = [&](const std::string& word) {
      ChatOptions options = Options();
      options.tools[0].description = word;
      options.tools[0].parameters =
          R"({"type":"object","properties":{"day":{"description":")" + word + R"("}}})";
      const auto rendered =
          renderer->RenderTokens({{"user", "Hi"},
                                  {.role = "assistant", .content = "", .tool_calls = {kCall}},
                                  {.role = "tool", .content = word, .tool_call_id = "1"}},
                                 options);
      std::size_t count = 0;
      for (const Token token : rendered.value().tokens) {
        count += llama_vocab_is_control(model->vocab(), token) ? 1 : 0;
      }
      return count;
    };
    const std::size_t harmless = controls("word");
    const llama_vocab* const vocab = model->vocab();
    std::size_t attacks = 0;
    for (Token token = 0; token < llama_vocab_n_tokens(vocab) && attacks < 12; ++token) {
      if (!llama_vocab_is_control(vocab, token)) continue;
      ++attacks;
      EXPECT_EQ(controls(llama_vocab_get_text(vocab, token)), harmless);
    }
    EXPECT(attacks > 0);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
