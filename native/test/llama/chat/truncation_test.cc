// Truncation of prompts that do not fit, with real templates and vocabularies.
#include "engine/llama/chat/truncation.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using namespace std::chrono_literals;

std::string Words(int count, const std::string& word) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + word;
  return text;
}

std::size_t Size(const ChatRenderer& chat, const std::vector<ChatMessage>& messages) {
  return chat.RenderTokens(messages).value().tokens.size();
}

TEST(TheBudgetLeavesRoomForTheAnswer) {
  EXPECT_EQ(BudgetOf(1000, {}).whole, 999U);
  EXPECT_EQ(BudgetOf(1000, {}).cut, 750U);
  EXPECT_EQ(BudgetOf(1000, 100).whole, 900U);
  EXPECT_EQ(BudgetOf(1000, 100).cut, 900U);
  EXPECT_EQ(BudgetOf(1000, 5000).cut, 500U);
  EXPECT_EQ(BudgetOf(1000, 0).cut, 999U);
  EXPECT_EQ(BudgetOf(1, {}).cut, 1U);
  EXPECT_EQ(BudgetOf(1, 7).whole, 1U);
}

TEST(AChatThatFitsIsLeftAlone) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const auto chat = std::move(ChatRenderer::New(*model).value());
    const std::vector<ChatMessage> messages = {
        {"user", "one"}, {"assistant", "two"}, {"user", "three"}};
    const auto size = static_cast<std::uint32_t>(Size(*chat, messages));
    const Result<CutPrompt> whole = CutChat(*chat, messages, {}, {.whole = size, .cut = 1});
    REQUIRE(whole.ok());
    EXPECT_EQ(whole.value().truncated_tokens, 0U);
    EXPECT(whole.value().prompt.tokens == chat->RenderTokens(messages).value().tokens);
  }
}

TEST(AChatLosesItsOldestTurnsAndNoMore) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const auto chat = std::move(ChatRenderer::New(*model).value());
    // Gemma's template rejects system messages.
    const bool has_system = chat->Render({{"system", "s"}, {"user", "u"}}).ok();
    std::vector<ChatMessage> messages;
    if (has_system) messages.push_back({"system", "Speak like a sailor."});
    for (int turn = 0; turn < 9; ++turn) {
      messages.push_back({"user", "question " + std::to_string(turn) + Words(20, "river")});
      messages.push_back({"assistant", "answer " + std::to_string(turn) + Words(30, "bridge")});
    }
    messages.push_back({"user", "and the last?"});
    const std::size_t first = has_system ? 1 : 0;
    for (const std::size_t gone : {1, 4, 8, 9}) {
      std::vector<ChatMessage> kept(messages.begin(), messages.begin() + first);
      kept.insert(kept.end(), messages.begin() + first + 2 * gone, messages.end());
      const auto fitting = static_cast<std::uint32_t>(Size(*chat, kept));
      const Result<CutPrompt> cut =
          CutChat(*chat, messages, {}, {.whole = fitting, .cut = fitting});
      REQUIRE(cut.ok());
      EXPECT(cut.value().prompt.tokens == chat->RenderTokens(kept).value().tokens);
      EXPECT_EQ(cut.value().truncated_tokens, Size(*chat, messages) - fitting);
      EXPECT(cut.value().prompt.format->stop == chat->RenderTokens(kept).value().format->stop);
    }
  }
}

TEST(ALastTurnThatIsTooLongLosesItsEnd) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const auto chat = std::move(ChatRenderer::New(*model).value());
    const std::string question = "Summarise this: " + Words(900, "größer");
    const std::vector<ChatMessage> messages = {
        {"user", "old"}, {"assistant", "older"}, {"user", question}};
    const Result<CutPrompt> cut = CutChat(*chat, messages, {}, {.whole = 200, .cut = 150});
    REQUIRE(cut.ok());
    const std::size_t kept = cut.value().prompt.tokens.size();
    EXPECT(kept <= 150 && kept > 130);
    EXPECT_EQ(cut.value().truncated_tokens, Size(*chat, messages) - kept);
    const std::string text = model->Detokenize(cut.value().prompt.tokens, true);
    EXPECT(text.find("Summarise this: größer größer") != std::string::npos);
    EXPECT(text.find("old") == std::string::npos);
    EXPECT(text.find("\xEF\xBF\xBD") == std::string::npos);  // no half of a character
  }
}

TEST(WhatMustStayAndDoesNotFitIsRefused) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto chat = std::move(ChatRenderer::New(*model).value());
  const std::vector<ChatMessage> long_system = {{"system", Words(500, "river")}, {"user", "hi"}};
  const Status status = CutChat(*chat, long_system, {}, {.whole = 100, .cut = 100}).status();
  EXPECT_EQ(status.code(), StatusCode::kContextOverflow);
  EXPECT(status.message().find(std::to_string(Size(*chat, long_system))) != std::string::npos);
  EXPECT(status.message().find("100") != std::string::npos);
  const auto code = [&](const std::vector<ChatMessage>& messages) {
    return CutChat(*chat, messages, {}, {.whole = 100, .cut = 100}).status().code();
  };
  EXPECT_EQ(code({{"assistant", Words(500, "x")}}), StatusCode::kContextOverflow);
  EXPECT_EQ(code({{"nobody", "x"}}), StatusCode::kInvalidRequest);
}

TEST(ControlTokensInAMessageStayTextWhenItIsCut) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto chat = std::move(ChatRenderer::New(*model).value());
  const std::vector<ChatMessage> messages = {{"user", Words(300, "<|im_end|>")}};
  const Result<CutPrompt> cut = CutChat(*chat, messages, {}, {.whole = 200, .cut = 200});
  REQUIRE(cut.ok());
  const Token end = model->Tokenize("<|im_end|>", false, true).value().at(0);
  const auto& tokens = cut.value().prompt.tokens;
  EXPECT(std::count(tokens.begin(), tokens.end(), end) <= 2);
}

TEST(ARawPromptLosesItsBeginningButForBos) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    std::string text;
    for (int i = 0; i < 200; ++i) text += " " + std::to_string(i);
    const std::vector<Token> whole = model->Tokenize(text, true, true).value();
    const auto size = static_cast<std::uint32_t>(whole.size());
    std::vector<Token> tokens = whole;
    EXPECT_EQ(CutRawPrompt(*model, {.whole = size, .cut = 10}, &tokens), 0U);
    EXPECT(tokens == whole);
    EXPECT_EQ(CutRawPrompt(*model, {.whole = size - 1, .cut = 50}, &tokens), size - 50);
    REQUIRE(tokens.size() == 50);
    const bool begins = llama_vocab_get_add_bos(model->vocab());
    EXPECT_EQ(tokens.front(), begins ? llama_vocab_bos(model->vocab()) : whole[size - 50]);
    EXPECT(std::equal(tokens.begin() + 1, tokens.end(), whole.end() - 49));
  }
}

struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<GenerationId, GenerationOutput> ends;

  OutputSink Sink() {
    return [this](std::vector<GenerationOutput> outputs) {
      const std::lock_guard lock(mutex);
      for (GenerationOutput& output : outputs) {
        if (output.done) ends[output.id] = std::move(output);
      }
      changed.notify_all();
    };
  }
  GenerationOutput End(GenerationId id) {
    std::unique_lock lock(mutex);
    EXPECT(changed.wait_for(lock, 60s, [&] { return ends.contains(id); }));
    return ends[id];
  }
};

TEST(AnEngineAnswersWhatIsLeftAndTellsWhatWent) {
  test::LoadModules();
  Heard heard;
  const auto engine = std::move(
      Engine::Load({.path = test::TinyModels()[1], .context_length = 256}, heard.Sink()).value());
  GenerationRequest request;
  request.id = 1;
  request.messages = {{"user", Words(300, "river")}, {"assistant", "x"}, {"user", "last"}};
  request.max_tokens = 20;
  EXPECT_EQ(engine->text()->Submit(request).status().code(), StatusCode::kContextOverflow);
  request.truncate = true;
  const Result<std::uint32_t> input = engine->text()->Submit(request);
  REQUIRE(input.ok());
  const GenerationOutput end = heard.End(1);
  EXPECT(end.status.ok());
  EXPECT_EQ(end.usage.input_tokens, input.value());
  EXPECT(end.usage.truncated_tokens.value_or(0) > 300);

  request.id = 2;
  request.messages = {{"user", "short"}};
  REQUIRE(engine->text()->Submit(request).ok());
  EXPECT_EQ(heard.End(2).usage.truncated_tokens.value_or(7), 0U);
  request.id = 3;
  request.truncate = false;
  REQUIRE(engine->text()->Submit(request).ok());
  EXPECT(!heard.End(3).usage.truncated_tokens.has_value());

  GenerationRequest raw;
  raw.id = 4;
  raw.prompt = Words(400, "river");
  raw.truncate = true;
  const Result<std::uint32_t> rest = engine->text()->Submit(raw);
  REQUIRE(rest.ok());
  EXPECT_EQ(rest.value(), 192U);
  EXPECT(heard.End(4).usage.truncated_tokens.value_or(0) > 200);
}

TEST(AnInputToEmbedLosesItsEndAndIsClosed) {
  for (const char* name : {"tiny-bert", "tiny-llama-embed"}) {
    test::LoadModules();
    Heard heard;
    const auto engine = std::move(
        Engine::Load({.path = test::ModelPath(name), .context_length = 64}, heard.Sink()).value());
    const std::string text = Words(200, "river");
    const auto size =
        static_cast<std::uint32_t>(engine->Tokenize(text, true, false).value().size());
    const Result<std::uint32_t> input =
        engine->embedding()->Embed({.id = 1, .input = {text, "short", text}, .truncate = true});
    REQUIRE(input.ok());
    const GenerationOutput end = heard.End(1);
    EXPECT(end.status.ok());
    EXPECT_EQ(end.usage.truncated_tokens.value_or(0), 2 * (size - 64));
    EXPECT_EQ(end.usage.input_tokens, input.value());

    const auto model = test::LoadTinyModel(test::ModelPath(name));
    REQUIRE(model != nullptr);
    const std::vector<Token> whole = model->Tokenize(text, true, false).value();
    std::vector<Token> tokens = whole;
    EXPECT_EQ(CutInput(*model, 64, &tokens), size - 64);
    const bool is_closed = whole.back() == llama_vocab_sep(model->vocab()) ||
                           whole.back() == llama_vocab_eos(model->vocab());
    EXPECT_EQ(tokens.back(), is_closed ? whole.back() : whole[63]);
    EXPECT(std::equal(tokens.begin(), tokens.end() - 1, whole.begin()));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
