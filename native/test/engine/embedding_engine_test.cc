// Engines that embed: what they return for texts and tokens, what they refuse, and what they cut.
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "heard_vectors.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

std::vector<std::string> EmbeddingModels() {
  return {test::ModelPath("tiny-bert"), test::ModelPath("tiny-llama-embed")};
}

// Minimum cosine similarity of equal inputs: the batch shape may change the rounding.
constexpr float kSame = 0.999F;

// Cosine of the angle between two vectors of length 1.
float Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  float product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
  return product;
}

std::unique_ptr<Engine> LoadEngine(const std::string& path, test::HeardVectors& heard) {
  Result<std::unique_ptr<Engine>> engine = test::LoadInto(heard, path);
  if (engine.ok()) return std::move(engine.value());
  test::Fail(__FILE__, __LINE__, engine.status().message());
  return nullptr;
}

TEST(AnEngineEmbedsTextsAndTokens) {
  for (const std::string& path : EmbeddingModels()) {
    test::HeardVectors heard;
    const auto engine = LoadEngine(path, heard);
    REQUIRE(engine != nullptr);
    const ModelInfo& info = engine->info();
    EXPECT(info.makes_embeddings);
    EXPECT_EQ(info.context_length, info.trained_context_length);

    const std::string text = "the river runs under the old bridge";
    const std::vector<Token> tokens = engine->Tokenize(text, true, false).value();
    const Result<std::uint32_t> input_tokens =
        engine->embedding()->Embed({.id = 1, .input = {text, tokens, "</s>", "[SEP]"}});
    REQUIRE(input_tokens.ok());
    EXPECT_EQ(heard.End(1).usage.input_tokens, input_tokens.value());
    const auto& flat = heard.vectors[1];
    REQUIRE(flat.size() == std::size_t{4} * info.embedding_length);
    const auto length = static_cast<std::ptrdiff_t>(info.embedding_length);
    EXPECT(Cosine({flat.begin(), flat.begin() + length},
                  {flat.begin() + length, flat.begin() + 2 * length}) > kSame);
  }
}

TEST(AnEngineRefusesWhatItCannotEmbed) {
  test::HeardVectors heard;
  const auto engine = LoadEngine(EmbeddingModels()[0], heard);
  REQUIRE(engine != nullptr);
  std::string text;
  for (int i = 0; i < 600; ++i) text += "river ";
  const Status status = engine->embedding()->Embed({.id = 1, .input = {"a", text}}).status();
  EXPECT(status.code() == StatusCode::kContextOverflow);
  EXPECT_EQ(status.message(), "input[1] has 602 tokens, and the model takes at most 512");
  EXPECT(engine->embedding()->Embed({.id = 2, .input = {std::vector<Token>{}}}).status().code() ==
         StatusCode::kInvalidRequest);
  EXPECT(engine->embedding()->Embed({.id = 3, .input = {}}).status().code() ==
         StatusCode::kInvalidRequest);
}

TEST(AnInputThatIsTooLongIsCutIfTheRequestAsksForIt) {
  test::HeardVectors heard;
  const auto engine = LoadEngine(EmbeddingModels()[0], heard);
  REQUIRE(engine != nullptr);
  const std::uint32_t most = engine->info().context_length;
  std::string text;
  for (int i = 0; i < 600; ++i) text += "river ";
  const std::vector<Token> tokens = engine->Tokenize(text, true, false).value();
  const auto size = static_cast<std::uint32_t>(tokens.size());
  REQUIRE(size > most);
  const Result<std::uint32_t> input_tokens =
      engine->embedding()->Embed({.id = 1, .input = {"a", text, tokens}, .truncate = true});
  REQUIRE(input_tokens.ok());
  const GenerationOutput end = heard.End(1);
  EXPECT(end.status.ok());
  EXPECT_EQ(end.usage.truncated_tokens.value_or(0), 2 * (size - most));
  EXPECT_EQ(end.usage.input_tokens, input_tokens.value());
  EXPECT_EQ(input_tokens.value() - 2 * most, engine->Tokenize("a", true, false).value().size());
  // Without the option nothing is reported as cut.
  REQUIRE(engine->embedding()->Embed({.id = 2, .input = {"a"}}).ok());
  EXPECT(!heard.End(2).usage.truncated_tokens.has_value());
  REQUIRE(engine->embedding()->Embed({.id = 3, .input = {"a"}, .truncate = true}).ok());
  EXPECT_EQ(heard.End(3).usage.truncated_tokens.value_or(7), 0U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
