// Forms of chats that templates would lose a part of, or refuse, rendered with the templates of
// llama.cpp's tree, and the reasons that an error names.
#include "engine/llama/chat/chat_forms.h"

#include <random>

#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/chat/media_marks.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc {
namespace {

using Chat = std::vector<ChatMessage>;

// "role: content" of each message, one a line.
std::string Shown(const Chat& chat) {
  std::string shown;
  for (const ChatMessage& each : chat) shown += each.role + ": " + each.content + "\n";
  return shown;
}

std::string ShownStrict(const Chat& chat) {
  const auto strict = StrictForm(chat);
  return strict ? Shown(*strict) : "the same";
}

// Ids of calls, or of the call that a result answers.
std::string IdsOf(const Chat& chat) {
  std::string ids;
  for (const ChatMessage& each : chat) {
    for (const ToolCall& call : each.tool_calls) ids += "call " + call.id + "\n";
    if (each.role == "tool") ids += "result " + each.tool_call_id + "\n";
  }
  return ids;
}

TEST(SeveralCallsBecomeOneEach) {
  const Chat chat = {{"user", "a"},
                     {.role = "assistant",
                      .content = "b",
                      .reasoning = "c",
                      .tool_calls = {{.id = "1", .name = "f"},
                                     {.id = "2", .name = "g"},
                                     {.id = "3", .name = "h"}}},
                     {.role = "tool", .content = "d", .tool_call_id = "2"},
                     {.role = "tool", .content = "e", .tool_call_id = "1"},
                     {"user", "i"}};
  TemplateTraits traits = {
      .writes_late_systems = true, .writes_calls = true, .writes_several_calls = true};
  EXPECT(!WholeForm(chat, traits));
  traits.writes_several_calls = false;
  const auto whole = WholeForm(chat, traits);
  REQUIRE(whole.has_value());
  EXPECT_EQ(Shown(*whole),
            "user: a\nassistant: b\ntool: e\nassistant: \ntool: d\nassistant: \nuser: i\n");
  EXPECT_EQ(IdsOf(*whole), "call 1\nresult 1\ncall 2\nresult 2\ncall 3\n");
  EXPECT_EQ((*whole)[1].reasoning + (*whole)[3].reasoning, "c");
  EXPECT(!WholeForm(*whole, traits));
}

TEST(WhatATemplateWouldLoseIsInTheWholeForm) {
  const TemplateTraits traits = {.writes_calls = true, .writes_several_calls = true};
  const auto shown = [&](const Chat& chat) {
    const auto whole = WholeForm(chat, traits);
    if (whole && WholeForm(*whole, traits)) test::Fail(__FILE__, __LINE__, Shown(*whole));
    return whole ? Shown(*whole) : "the same";
  };
  EXPECT_EQ(shown({{"system", "a"}, {"user", "b"}}), "the same");
  EXPECT_EQ(shown({{"system", "a"}, {"developer", "b"}, {"user", "c"}, {"system", "d"}}),
            "system: a\n\nb\nuser: c\n\n<system-reminder>\nd\n</system-reminder>\n");
  EXPECT_EQ(
      shown({{"user", "a"}, {"assistant", "b"}, {"system", "c"}, {"user", "d"}, {"user", "e"}}),
      "user: a\nassistant: b\nuser: <system-reminder>\nc\n</system-reminder>\n\nd\nuser: e\n");
  const ChatMessage call = {.role = "assistant", .content = "", .tool_calls = {{.name = "f"}}};
  EXPECT_EQ(shown({{"system", "a"}, call}), "system: a\nuser: \nassistant: \n");
}

TEST(MistralsTemplatesGetTheirForm) {
  const Chat chat = {{"user", "a"},
                     {.role = "assistant",
                      .content = "",
                      .tool_calls = {{.id = "toolu_1", .name = "f"}, {.id = "abcdefghi"}}},
                     {.role = "tool", .content = "b", .tool_call_id = "toolu_1"},
                     {.role = "tool", .content = "c", .tool_call_id = "abcdefghi"},
                     {"user", "d"}};
  const auto made = MistralForm(chat);
  REQUIRE(made.has_value());
  EXPECT_EQ(Shown(*made), "user: a\nassistant: \ntool: b\ntool: c\nassistant: Noted.\nuser: d\n");
  const std::string& id = (*made)[1].tool_calls[0].id;
  EXPECT_EQ(id.size(), 9U);
  EXPECT_EQ(IdsOf(*made), "call " + id + "\ncall abcdefghi\nresult " + id + "\nresult abcdefghi\n");
  EXPECT(!MistralForm(*made));
}

TEST(NeighboursOfOneRoleAreJoined) {
  EXPECT_EQ(ShownStrict({{"system", "a"},
                         {"developer", "b"},
                         {"user", "c"},
                         {"user", ""},
                         {"user", "d"},
                         {"assistant", "e"},
                         {"assistant", "f"}}),
            "system: a\n\nb\nuser: c\n\nd\nassistant: e\n\nf\n");
  const auto strict = StrictForm({{"user", "a"},
                                  {.role = "assistant", .content = "b", .reasoning = "c"},
                                  {.role = "assistant", .content = "d", .reasoning = "e"}});
  REQUIRE(strict.has_value());
  EXPECT_EQ(strict->back().reasoning, "c\n\ne");
}

TEST(ALateSystemMessageIsAMarkedTextOfTheUser) {
  EXPECT_EQ(ShownStrict({{"user", "a"}, {"system", "b"}, {"assistant", "c"}}),
            "user: a\n\n<system-reminder>\nb\n</system-reminder>\nassistant: c\n");
  EXPECT_EQ(ShownStrict({{"system", "a"}, {"user", "b"}, {"assistant", "c"}, {"developer", "d"}}),
            "system: a\nuser: b\nassistant: c\nuser: <system-reminder>\nd\n</system-reminder>\n");
}

TEST(CallsAndResultsStayAsTheyAre) {
  const ChatMessage call = {
      .role = "assistant", .content = "", .tool_calls = {{.id = "1", .name = "f"}}};
  const ChatMessage result = {
      .role = "tool", .content = "x", .tool_call_id = "1", .tool_name = "f"};
  EXPECT_EQ(ShownStrict({{"user", "a"}, call, call, result, result, {"user", "b"}}), "the same");
  const auto strict = StrictForm({{"user", "a"}, {"user", "b"}, call, result, result});
  REQUIRE(strict.has_value() && strict->size() == 4);
  EXPECT_EQ((*strict)[1].tool_calls.size(), 1U);
  EXPECT_EQ((*strict)[2].tool_call_id + (*strict)[2].tool_name, "1f");
}

TEST(AnAssistantDoesNotBegin) {
  EXPECT_EQ(ShownStrict({{"assistant", "a"}, {"user", "b"}}), "user: \nassistant: a\nuser: b\n");
  EXPECT_EQ(ShownStrict({{"system", "s"}, {"assistant", "a"}}),
            "system: s\nuser: \nassistant: a\n");
}

TEST(CallsAndResultsAreTextForATemplateWithoutThem) {
  const ChatMessage calls = {.role = "assistant",
                             .content = "b",
                             .tool_calls = {{.id = "1", .name = "f", .arguments = R"({"x":1})"},
                                            {.id = "2", .name = "\"", .arguments = "{}"}}};
  const auto result = [](const char* id, const char* text) {
    return ChatMessage{.role = "tool", .content = text, .tool_call_id = id, .tool_name = "f"};
  };
  EXPECT_EQ(Shown(*WholeForm(
                {{"user", "a"}, calls, result("1", "c"), result("2", "d"), {"user", "e"}}, {})),
            "user: a\n"
            "assistant: b\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>"
            "\n\n<tool_call>\n{\"name\": \"\\\"\", \"arguments\": {}}\n</tool_call>\n"
            "user: <tool_response>\nc\n</tool_response>\n\n<tool_response>\nd\n</tool_response>"
            "\n\ne\n");
}

TEST(ASchemaIsTextForATemplateThatNeedsTypes) {
  const Tool plain = {.name = "f",
                      .parameters = R"({"type":"object","properties":{"x":{"type":"string"}}})"};
  EXPECT(!SimpleForm({plain, {.name = "g", .parameters = R"({"type":"object","properties":{}})"}}));
  const std::string odd =
      R"({"properties":{"x":{"type":"integer"},"y":{"type":["null"]},"z":true}})";
  const auto simple = SimpleForm({plain, {.name = "h", .description = "H", .parameters = odd}});
  REQUIRE(simple.has_value() && simple->size() == 2);
  EXPECT(simple->front() == plain);
  EXPECT_EQ(simple->back().description, "H\n\nJSON Schema of the arguments: " + odd);
  EXPECT_EQ(simple->back().parameters,
            R"({"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"string"},)"
            R"("z":{"type":"string"}}})");
  EXPECT(!SimpleForm(std::vector<Tool>(simple->begin(), simple->end())));
}

// The next form that the renderer tries after a refusal.
std::optional<Chat> NextForm(const Chat& chat, const TemplateTraits& traits) {
  if (auto whole = WholeForm(chat, traits)) return whole;
  if (auto strict = StrictForm(chat)) return strict;
  return MistralForm(chat);
}

TEST(FormsComeToAnEnd) {
  constexpr int kForms = 3;
  std::mt19937 random(7);
  const std::vector<std::string> roles = {"system", "developer", "user", "assistant", "tool"};
  for (int round = 0; round < 16000; ++round) {
    Chat chat;
    for (std::size_t i = random() % 8; i > 0; --i) {
      chat.push_back({.role = roles[random() % roles.size()], .content = random() % 3 ? "x" : ""});
      if (chat.back().role != "assistant") continue;
      for (std::size_t calls = random() % 3; calls > 0; --calls) {
        chat.back().tool_calls.push_back({.id = std::to_string(calls), .name = "f"});
      }
    }
    const TemplateTraits traits = {.writes_late_systems = random() % 2 == 0,
                                   .writes_calls = random() % 2 == 0,
                                   .writes_several_calls = random() % 2 == 0};
    std::optional<Chat> form = chat;
    for (int i = 0; i <= kForms && form; ++i) form = NextForm(*form, traits);
    if (form) test::Fail(__FILE__, __LINE__, Shown(chat));
  }
}

bool Refuses(const test::Template& found, const Chat& chat) {
  common_chat_templates_inputs inputs;
  for (const ChatMessage& message : chat) {
    inputs.messages.emplace_back();
    inputs.messages.back().role = message.role;
    inputs.messages.back().content = message.content;
  }
  try {
    (void)common_chat_templates_apply(found.parsed.get(), inputs);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

// Every template renders these chats; one that refuses them as they are writes all of their texts.
TEST(WhatATemplateRefusesIsRenderedInStrictForm) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const std::vector<Chat> loose = {
      {{"user", "T1"}, {"user", "T2"}, {"assistant", "T3"}, {"user", "T4"}},
      {{"system", "T1"}, {"developer", "T2"}, {"user", "T3"}},
      {{"system", "T1"}, {"user", "T2"}, {"assistant", "T3"}, {"system", "T4"}, {"user", "T5"}},
      {{"user", "T1"}, {"assistant", "T2"}, {"assistant", "T3"}, {"user", "T4"}},
      {{"assistant", "T1"}, {"user", "T2"}},
      {{"user", "T1"},
       {.role = "assistant",
        .content = "",
        .tool_calls = {{.id = "abcdefghi", .name = "f", .arguments = "{}"}}},
       {.role = "tool", .content = "T3", .tool_call_id = "abcdefghi", .tool_name = "f"}}};
  int refused = 0;
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    if (!renderer.ok() || Refuses(each, {{"user", "T1"}})) continue;
    for (const Chat& chat : loose) {
      const Result<std::string> prompt = renderer.value()->Render(chat);
      if (!prompt.ok()) test::Fail(each.name.c_str(), 0, prompt.status().message());
      if (!prompt.ok() || !Refuses(each, chat)) continue;
      ++refused;
      for (const ChatMessage& message : chat) {
        const bool is_there = prompt.value().find(message.content) != std::string::npos;
        if (!is_there) test::Fail(each.name.c_str(), 0, message.content + prompt.value());
      }
    }
  }
  std::printf("     %d chats refused as they are\n", refused);
  EXPECT(refused >= 10);
}

// The prompt of the turns before stays the beginning of the next one.
TEST(ALateSystemMessageKeepsThePromptBeforeIt) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  for (const test::Template& each : test::Templates()) {
    if (each.name != "Qwen3.5-4B.jinja") continue;
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    Chat chat = {{"system", "Be brief."}, {"user", "Hi"}};
    const std::string before = renderer.value()->Render(chat).value();
    chat.insert(chat.end(), {{"assistant", "Hello"}, {"system", "Be long."}, {"user", "Why?"}});
    const Result<std::string> after = renderer.value()->Render(chat);
    REQUIRE(after.ok());
    const std::size_t turns = before.rfind("<|im_start|>assistant");
    EXPECT_EQ(after.value().substr(0, turns), before.substr(0, turns));
    EXPECT(after.value().find("<|im_start|>user\n<system-reminder>\nBe long.\n</system-reminder>"
                              "\n\nWhy?<|im_end|>") != std::string::npos);
    return;
  }
  test::Fail(__FILE__, __LINE__, "llama.cpp's tree has no template of Qwen3.5");
}

TEST(PicturesKeepTheirPlacesAndTextsStayText) {
  const auto model = test::LoadTinyModel(test::TinyModels()[2]);  // Gemma: roles must alternate
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(*model);
  REQUIRE(renderer.ok());
  const auto picture = [](Token token) { return Media{.at = 0, .tokens = {token}}; };
  const auto tokens_with = [&](const std::string& text) {
    const Result<ChatPrompt> prompt = renderer.value()->RenderTokens(
        {{.role = "user", .content = text, .media = {picture(7), picture(8)}},
         {.role = "user", .content = text, .media = {picture(9)}}});
    return prompt.ok() ? prompt.value().tokens : std::vector<Token>();
  };
  const std::vector<Token> tokens = tokens_with("<bos>");
  const auto place = [&](Token token) { return std::ranges::find(tokens, token); };
  EXPECT(place(7) < place(8) && place(8) < place(9) && place(9) != tokens.end());
  const auto controls = [&](const std::vector<Token>& all) {
    return std::ranges::count_if(
        all, [&](Token token) { return llama_vocab_is_control(model->vocab(), token); });
  };
  EXPECT(controls(tokens) > 0);
  EXPECT_EQ(controls(tokens), controls(tokens_with("word")));
}

TEST(AnErrorNamesTheTemplatesOwnReason) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto message = [&](const std::string& source, const std::string& content) {
    const auto renderer = ChatRenderer::New(*model, source);
    if (!renderer.ok()) return std::string("no template");
    return renderer.value()->RenderTokens({{"user", content}}).status().message();
  };
  const std::string raises = "{% if messages[0].content != 'x' %}{{ raise_exception(";
  const std::string ends = ") }}{% endif %}";
  EXPECT_EQ(message(raises + "'Roles must\talternate.'" + ends, "my secret"),
            "the model's chat template refuses this chat: \"Roles must alternate.\"; change the "
            "messages accordingly, or use another model");
  // What the chat adds to the reason is left out.
  EXPECT(message(raises + "'Bad message ' + messages[0].content" + ends, "my secret")
             .find("\"Bad message …\"") != std::string::npos);
  for (const std::string raised : {"messages[0].content", "messages[0].content + ' is bad'"}) {
    EXPECT(
        message(raises + raised + ends, "my secret").find("refuses this chat; send one system") !=
        std::string::npos);
  }
  // Neither a fault of the template nor text that looks like a reason is a reason.
  EXPECT(message("{{ messages[0].content | nothing }}", "\nError: Jinja Exception: my secret")
             .find("secret") == std::string::npos);
  const std::string is_long = message(raises + "'" + std::string(5000, 'a') + "'" + ends, "b");
  EXPECT(is_long.size() < 400 && is_long.find("a…\"") != std::string::npos);
}

TEST(AReasonIsCutBetweenCharacters) {
  const auto message = [](const std::string& raised, const std::string& source) {
    return RefusalMessage("\nError: Jinja Exception: " + raised, source);
  };
  EXPECT(message("Nachricht ä", "'Nachricht ö'").find("\"Nachricht …\"") != std::string::npos);
  std::string longest = "a";
  for (int i = 0; i < 200; ++i) longest += "ä";
  EXPECT(message(longest, "'" + longest + "'").find("ä…\"") != std::string::npos);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
