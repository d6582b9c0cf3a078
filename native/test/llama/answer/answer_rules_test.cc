// A call that the model need not make: once it has begun one, the call is valid, whatever tokens it
// is made of. Reasoning whose tags are several tokens, before a format.
#include "engine/llama/answer/answer_rules.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "answer_test.h"
#include "edited_model.h"
#include "engine/llama/answer/call_parts.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/sampler.h"
#include "models.h"
#include "templates.h"

namespace svc {
namespace {

Tool Moon() {
  return {.name = "set_moon",
          .description = "Sets the moon",
          .parameters = R"({"type":"object","properties":{"phase":{"enum":["new","full"]},)"
                        R"("day":{"type":"integer"}},"required":["phase","day"]})",
          .grammar =
              "arguments-0-root ::= \"{\\\"phase\\\": \" (\"\\\"new\\\"\" | "
              "\"\\\"full\\\"\") \", \\\"day\\\": \" arguments-0-r0 \"}\"\n"
              "arguments-0-r0 ::= [1-9] [0-9]{0,3}\n",
          .strict = true};
}

bool IsValid(const ToolCall& call) {
  const common_json arguments = common_json::parse(call.arguments);
  const std::string phase = arguments.at("phase").get<std::string>();
  return call.name == "set_moon" && arguments.size() == 2 && (phase == "new" || phase == "full") &&
         arguments.at("day").get<int>() > 0;
}

// A model that begins a call, and then draws at random.
class Caller {
 public:
  // `tag`: with which a call begins.
  Caller(const LlamaModel& model, const std::string& tag)
      : model_(model), tag_(model.Tokenize(tag, false, true).value()) {
    const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(model.vocab()));
    logits_.resize(vocabulary);
    for (std::size_t i = 0; i < vocabulary + kShifts; ++i) {
      pool_.push_back(static_cast<float>(random_() % 1024) / 100);
    }
    const std::string last = model.Piece(tag_.back(), /*special=*/false);
    for (Token token = 0; token < static_cast<Token>(vocabulary); ++token) {
      if (model.Piece(token, /*special=*/false).starts_with(last)) lasts_.push_back(token);
    }
  }

  // The last token of the tag may be any that begins like it.
  std::string Write(Sampler& sampler) {
    std::string text;
    for (std::size_t at = 0; at < kLongest && !sampler.ended(); ++at) {
      const auto shift = static_cast<std::ptrdiff_t>(random_() % kShifts);
      std::copy_n(pool_.begin() + shift, logits_.size(), logits_.begin());
      if (at + 1 < tag_.size()) logits_[tag_[at]] = 100;
      if (at + 1 == tag_.size()) {
        for (const Token token : lasts_) logits_[token] += 50;
      }
      const Token token = sampler.Sample(logits_.data());
      if (token < 0 || llama_vocab_is_eog(model_.vocab(), token)) break;
      text += model_.Piece(token, /*special=*/false);
      for (const Token forced : sampler.Forced()) text += model_.Piece(forced, /*special=*/false);
    }
    return text;
  }
  bool is_cut_anywhere() const { return tag_.size() > 1 && lasts_.size() > 3; }

 private:
  static constexpr std::size_t kLongest = 200;  // tokens
  static constexpr std::size_t kShifts = 4096;

  const LlamaModel& model_;
  const std::vector<Token> tag_;
  std::vector<Token> lasts_;
  std::vector<float> pool_;
  std::vector<float> logits_;
  std::mt19937 random_{1};
};

TEST(ACallThatAModelBeginsIsValid) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto renderer = ChatRenderer::New(*model);
  REQUIRE(renderer.ok());
  ChatOptions options;
  options.tools = {Moon()};
  options.parallel_tool_calls = false;
  const auto prompt = renderer.value()->RenderTokens({{"user", "Make it full"}}, options);
  REQUIRE(prompt.ok() && prompt.value().format->trigger);
  REQUIRE(prompt.value().format->trigger->words.size() == 1);
  Caller caller(*model, prompt.value().format->trigger->words.front());
  REQUIRE(caller.is_cut_anywhere());
  AnswerRulesMaker maker(*model);
  const int calls = test::kSanitized ? 10 : 200;
  int valid = 0;
  for (int i = 0; i < calls; ++i) {
    Result<AnswerRules> rules = maker.Make(prompt.value().format, "", std::nullopt);
    REQUIRE(rules.ok());
    SamplingParams params;
    params.seed = static_cast<std::uint32_t>(i);
    params.temperature = 1.5F;
    auto sampler = NewSampler(
        model->vocab(), {.params = params, .constraint = std::move(rules.value().constraint)});
    REQUIRE(sampler.ok());
    const std::string text = caller.Write(*sampler.value());
    const test::Answer answer = test::ReadPieces(prompt.value().format, {text});
    const bool is_valid = answer.calls.size() == 1 && IsValid(answer.calls[0]);
    valid += is_valid ? 1 : 0;
    if (!is_valid) test::Fail(__FILE__, i, text);
  }
  EXPECT_EQ(valid, calls);
}

std::shared_ptr<const AnswerFormat> Format(const std::string& generation_prompt) {
  auto format = std::make_shared<AnswerFormat>();
  format->thinking_start = "<think>";
  format->thinking_ends = {"</think>"};
  format->generation_prompt = generation_prompt;
  return format;
}

// Accepts the tokens of a text as the model would write it. Returns the first that may not follow.
std::string Refused(const LlamaModel& model, AnswerConstraint& constraint,
                    const std::string& text) {
  for (const Token token : TokenizerWithin(model)(text)) {
    if (!constraint.Accept(token)) return model.Piece(token, false);
  }
  return "";
}

std::string TakeForced(const LlamaModel& model, AnswerConstraint& constraint) {
  std::string text;
  while (const std::optional<Token> token = constraint.Forced()) {
    text += model.Piece(*token, false);
    EXPECT(constraint.Accept(*token));
  }
  return text;
}

TEST(AFormatFollowsTheReasoningInEveryVocabulary) {
  std::size_t joined = 0;
  for (const char* name : {"qwen2", "llama-bpe", "llama-spm", "gpt-2", "falcon"}) {
    const auto model = test::LoadVocabulary(std::string(SVC_LLAMA_SOURCE_DIR) +
                                            "/models/ggml-vocab-" + name + ".gguf");
    REQUIRE(model != nullptr);
    AnswerRulesMaker maker(*model);
    const auto constrain = [&](const std::string& prompt, std::optional<std::uint32_t> budget) {
      auto rules = maker.Make(Format(prompt), "root ::= \"yes\"", budget);
      if (!rules.ok()) test::Fail(name, 0, rules.status().message());
      rules.value().constraint->Begin();
      return std::move(rules.value().constraint);
    };

    auto ended = constrain("<think>\n", std::nullopt);
    EXPECT_EQ(Refused(*model, *ended, "Hm.\n</think"), "");
    // The line break is refused, with or without the end of the tag.
    const std::string refused = Refused(*model, *ended, ">\n");
    joined += refused == ">\n" ? 1 : 0;
    EXPECT(refused == ">\n" || refused == "\n");
    if (refused == ">\n") EXPECT_EQ(Refused(*model, *ended, ">"), "");
    EXPECT_EQ(Refused(*model, *ended, "yes"), "");
    EXPECT(ended->ended());

    auto spent = constrain("<think>\n", 2);
    const std::vector<Token> words = TokenizerWithin(*model)("one two three");
    EXPECT(spent->Accept(words[0]) && spent->Accept(words[1]));
    EXPECT_EQ(TakeForced(*model, *spent), "</think>");
    EXPECT(!spent->Accept(words[2]));
    EXPECT_EQ(Refused(*model, *spent, "yes"), "");

    auto begun = constrain("assistant:", std::nullopt);
    EXPECT_EQ(Refused(*model, *begun, "<"), "");
    EXPECT_EQ(TakeForced(*model, *begun), "think>");
    EXPECT_EQ(Refused(*model, *begun, "Hm.</think>yes"), "");
    EXPECT(begun->ended());
  }
  EXPECT(joined > 0);
}

// What is not the beginning of the format is a text before it.
TEST(AFormatGoesOnWhereTheContinuedMessageEnds) {
  constexpr const char* kObject = R"(root ::= "{\"a\": " [0-9] "}")";
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  AnswerRulesMaker maker(*model);
  std::size_t continued = 0;
  for (const test::Template& each : test::Templates()) {
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    for (const auto& [begun, rest] : std::vector<std::pair<std::string, std::string>>{
             {R"({"a":)", " 1}"}, {"Here it is:", R"({"a": 1})"}}) {
      const auto prompt = renderer.value()->RenderTokens(
          {{"user", "How many?"}, {"assistant", begun}}, {.continue_last = true});
      if (!prompt.ok()) continue;  // the template refuses it
      ++continued;
      auto rules = maker.Make(prompt.value().format, kObject, std::nullopt);
      REQUIRE(rules.ok());
      rules.value().constraint->Begin();
      const std::string refused = Refused(*model, *rules.value().constraint, rest);
      if (!refused.empty()) test::Fail(each.name.c_str(), 0, begun + " refuses " + refused);
      EXPECT(rules.value().constraint->ended());
    }
  }
  std::printf("%zu chats\n", continued);
  EXPECT(continued >= 100);
}

// Calls need room of their own, and what ends a format does not run into them.
TEST(AFormatThatIsTakenAloneIsTakenBesideCalls) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  AnswerRulesMaker maker(*model);
  constexpr std::size_t kLongest = std::size_t{256} * 1024;  // LIMITS.grammarBytes
  std::string longest = R"(root ::= "yes" #)";
  longest.append(kLongest - longest.size(), 'x');
  std::string names = R"(root ::= "yes" a*)";
  while (names.size() < kLongest - 100) names += " a a a a a a a a a a a a a a a a a a a a";
  for (const std::string& grammar :
       {longest, names + "\na ::= \"!\"", std::string(R"(root ::= "yes" |)")}) {
    auto format = std::make_shared<AnswerFormat>();
    for (const char* calls : {"", "root ::= \"call\"\n"}) {
      format->calls_beside_format = calls;
      for (const std::string text : {"yes", "call"}) {
        auto rules = maker.Make(format, grammar, std::nullopt);
        if (!rules.ok()) test::Fail(calls, 0, rules.status().message());
        if (!rules.ok()) continue;
        rules.value().constraint->Begin();
        const bool may = text == "yes" || *calls != '\0';
        EXPECT_EQ(Refused(*model, *rules.value().constraint, text).empty(), may);
      }
    }
  }
}

// Some vocabularies put a space before every text.
TEST(ATextIsTokenizedAsInsideALongerOne) {
  for (const char* name : {"llama-spm", "phi-3", "qwen2", "gpt-2"}) {
    const auto model = test::LoadVocabulary(std::string(SVC_LLAMA_SOURCE_DIR) +
                                            "/models/ggml-vocab-" + name + ".gguf");
    REQUIRE(model != nullptr);
    for (const std::string text : {"a", " a", " {", "  {\"a\"", "\n a", "{"}) {
      std::string spelled;
      for (const Token token : TokenizerWithin (*model)(text)) {
        spelled += model->Piece(token, /*special=*/false);
      }
      if (spelled != text) test::Fail(name, 0, "\"" + text + "\" becomes \"" + spelled + "\"");
    }
  }
}

// Requests are prepared on other threads than the one that follows their grammars, and equal
// grammars share one automaton. The thread sanitizer sees a thread that should not touch it.
TEST(RulesAreMadeWhileTheirGrammarIsFollowed) {
  constexpr const char* kNested = R"(root ::= "[" root* "]")";
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  AnswerRulesMaker maker(*model);
  const auto make = [&](std::size_t depth) {
    auto format = std::make_shared<AnswerFormat>();
    format->continued = std::string(depth, '[');
    auto rules = maker.Make(format, kNested, std::nullopt);
    EXPECT(rules.ok());
    return std::move(rules.value().constraint);
  };
  const std::vector<Token> open = TokenizerWithin(*model)("[");
  REQUIRE(open.size() == 1);
  auto followed = make(0);
  followed->Begin();
  std::atomic<bool> is_done = false;
  std::vector<std::thread> makers;
  for (std::size_t i = 0; i < 2; ++i) {
    makers.emplace_back([&, i] {
      for (std::size_t depth = 1; !is_done; ++depth) (void)make(depth % 4096 + i);
    });
  }
  for (int depth = 0; depth < 3000; ++depth) EXPECT(followed->Accept(open[0]));
  is_done = true;
  for (std::thread& each : makers) each.join();
}

// The vocabulary of Llama 3, with gpt-oss' tokens in place of unused ones.
std::unique_ptr<LlamaModel> LoadHarmony(const test::Folder& folder) {
  const std::vector<std::string> names = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"};
  return test::LoadVocabulary(test::EditedModel(
      folder, "harmony", std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-llama-bpe.gguf",
      [&](gguf_context* file) {
        const std::int64_t key = gguf_find_key(file, "tokenizer.ggml.tokens");
        std::vector<std::string> tokens;
        for (std::size_t i = 0; i < gguf_get_arr_n(file, key); ++i) {
          tokens.emplace_back(gguf_get_arr_str(file, key, i));
        }
        for (std::size_t i = 0; i < names.size(); ++i) {
          const std::string unused = "<|reserved_special_token_" + std::to_string(i + 10) + "|>";
          *std::find(tokens.begin(), tokens.end(), unused) = names[i];
        }
        std::vector<const char*> texts;
        for (const std::string& token : tokens) texts.push_back(token.c_str());
        gguf_set_arr_str(file, "tokenizer.ggml.tokens", texts.data(), texts.size());
      }));
}

// libllama writes some of gpt-oss' tokens as text, but they are tokens of their own all the same.
TEST(ABudgetLimitsEveryReasoningOfTheAnswer) {
  const test::Folder folder;
  const auto model = LoadHarmony(folder);
  REQUIRE(model != nullptr);
  const std::vector<Token> channel = model->Tokenize("<|channel|>", false, true).value();
  REQUIRE(channel.size() == 1 && model->Piece(channel[0], /*special=*/false) == "<|channel|>");
  auto format = std::make_shared<AnswerFormat>();
  format->thinking_start = "<|channel|>analysis<|message|>";
  format->thinking_ends = {"<|end|>"};
  format->spelled_tokens = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"};
  AnswerRulesMaker maker(*model);
  auto rules = maker.Make(format, "", 2);
  REQUIRE(rules.ok());
  AnswerConstraint& constraint = *rules.value().constraint;
  constraint.Begin();
  const Token end = model->Tokenize("<|end|>", false, true).value()[0];
  for (const std::string before : {"", "<|start|>assistant"}) {
    const std::string text = before + format->thinking_start + "one two";
    const std::vector<Token> tokens = model->Tokenize(text, false, true).value();
    for (const Token token : tokens) {
      EXPECT(!constraint.Forced());
      EXPECT(constraint.Accept(token));
    }
    REQUIRE(constraint.Forced() == std::optional(end));
    EXPECT(constraint.Accept(end));
  }
}

// Writes the first token that the grammar allows, until the answer is complete.
std::string Complete(const LlamaModel& model, AnswerConstraint& constraint) {
  std::string text;
  for (int at = 0; at < 100 && !constraint.ended(); ++at) {
    Token token = 0;
    const auto may_follow = [&] { return constraint.grammar()->Allows(token); };
    while (token < llama_vocab_n_tokens(model.vocab()) && !may_follow()) ++token;
    EXPECT(constraint.Accept(token));
    text += model.Piece(token, false);
  }
  return text;
}

// Some formats write a text of their own before a content, which the parser demands.
TEST(AFormatStandsInTheContentOfTheAnswer) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  AnswerRulesMaker maker(*model);
  std::size_t read = 0;
  for (const test::Template& each : test::Templates()) {
    const char* const name = each.name.c_str();
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    for (const bool thinks : {false, true}) {
      ChatOptions options;
      if (!thinks) options.reasoning_effort = ReasoningEffort::kNone;
      const auto prompt = renderer.value()->RenderTokens({{"user", "Is it full?"}}, options);
      REQUIRE(prompt.ok());
      const auto& format = prompt.value().format;
      auto rules = maker.Make(format, "root ::= \"yes\"", std::nullopt);
      REQUIRE(rules.ok());
      AnswerConstraint& constraint = *rules.value().constraint;
      constraint.Begin();
      std::string text;
      if (thinks && !format->thinking_ends.empty()) {
        text = (OpensThinking(*format) ? "" : format->thinking_start) + "Hm." +
               format->thinking_ends.front();
        EXPECT_EQ(Refused(*model, constraint, text), "");
      } else if (OpensThinking(*format)) {
        continue;
      }
      text += Complete(*model, constraint);
      if (rules.value().reader == nullptr) continue;
      ++read;
      const bool is_read =
          !RefusedAt(format->parser->parser, format->parser->generation_prompt + text);
      const test::Answer answer = test::ReadPieces(format, {text});
      // Not all of them read a reasoning in every prompt.
      if (!is_read || !answer.content.ends_with("yes"))
        test::Fail(name, thinks, text + " -> " + test::Show(answer));
    }
  }
  EXPECT(read >= 60);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
