// Grammars in a complete engine.
#include <string>
#include <vector>

#include "engine/engine.h"
#include "loaded_engine.h"
#include "models.h"
#include "reference.h"
#include "test.h"

namespace svc {
namespace {

using test::Greedy;
using test::LoadEngine;
using test::Prompt;
using test::Request;
using test::Seeded;

constexpr const char* kNameAndAge =
    "root ::= \"{\\\"name\\\": \\\"\" [A-Za-z ]{1,12} \"\\\", \\\"age\\\": \" [1-9] [0-9]? \"}\"";

// With logprobs every token is drawn, none is forced, and so the text equals llama.cpp's.
TEST(TextUnderAGrammarEqualsThePlainLoop) {
  const std::string list = "root ::= (\"- \" [^\\n]+ \"\\n\"){1,4}";
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(loaded != nullptr && model != nullptr);
    GenerationId id = 0;
    for (const SamplingParams& sampling : {Greedy(), Seeded(1), Seeded(2)}) {
      for (const std::string& gbnf : {std::string(kNameAndAge), list}) {
        GenerationRequest request = Request(++id, Prompt(12, 1), sampling, 32);
        request.grammar = gbnf;
        request.logprobs = 2;
        const std::vector<Token> tokens = model->Tokenize(request.prompt, true, true).value();
        const test::Reference expected = test::RunReference(*model, tokens, sampling, 32, 2048,
                                                            loaded->engine->info().threads, gbnf);
        REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
        EXPECT_EQ(loaded->listener.Text(id), expected.text);
        EXPECT_EQ(loaded->listener.End(id).reason,
                  expected.ended ? FinishReason::kStop : FinishReason::kLength);
      }
    }
  }
}

TEST(AGrammarEndsTheText) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    for (const GenerationId id : {1U, 2U, 3U}) {
      GenerationRequest request = Request(id, "Who?", Seeded(id), 64);
      request.grammar = kNameAndAge;
      REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
      const std::string text = loaded->listener.Text(id);
      const GenerationOutput end = loaded->listener.End(id);
      EXPECT(text.starts_with("{\"name\": \"") && text.ends_with("}"));
      EXPECT_EQ(end.reason, FinishReason::kStop);
      EXPECT(end.usage.output_tokens > 3);
      // Forced tokens take no step of their own.
      EXPECT(loaded->engine->stats().steps < loaded->engine->stats().generated_tokens);
    }
    // A text cut by max_tokens ends with kLength.
    GenerationRequest cut = Request(9, "Who?", Seeded(9), 3);
    cut.grammar = kNameAndAge;
    REQUIRE(loaded->engine->Submit(std::move(cut)).ok() && loaded->listener.WaitFor(9));
    EXPECT_EQ(loaded->listener.End(9).reason, FinishReason::kLength);
    EXPECT_EQ(loaded->listener.End(9).usage.output_tokens, 3U);
  }
}

TEST(GrammarsThatCannotBeFollowedAreRefused) {
  const auto loaded = LoadEngine(test::TinyModels()[0], 512);
  REQUIRE(loaded != nullptr);
  GenerationRequest wrong = Request(1, "Hi", Greedy(), 4);
  wrong.grammar = "root ::= (";
  const Result<std::uint32_t> refused = loaded->engine->Submit(wrong);
  REQUIRE(!refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(refused.status().param(), "grammar");
  EXPECT(refused.status().message().starts_with("line 1, column 11"));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
