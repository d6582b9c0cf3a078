// Models that rank: scores equal those of a plain libllama context, which gets what llama-server
// gives it.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "heard_vectors.h"
#include "models.h"
#include "pooled_reference.h"
#include "rank_pairs.h"
#include "test.h"

namespace svc {
namespace {

using test::Pair;
using test::RankingBert;
using test::RankingQwen;

constexpr const char* kQuery = "what runs under the bridge?";

const std::vector<std::string>& Documents() {
  static const std::vector<std::string> documents = {
      "the river runs under the old bridge",
      "seven boats wait",
      "",
      "Grüße aus Köln! 你好，世界。",
      "def fibonacci(n):\n    return n",
      "the river the river the river the river the river the river the river the river the river"};
  return documents;
}

std::vector<std::size_t> Order(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

TEST(ScoresAndOrderEqualThoseOfAPlainContext) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    test::HeardVectors heard;
    const auto engine = test::LoadInto(heard, path);
    REQUIRE(engine.ok());
    EXPECT(engine.value()->info().ranks && engine.value()->info().makes_embeddings);
    EXPECT_EQ(engine.value()->info().embedding_length, 1U);
    const Result<std::uint32_t> input_tokens =
        engine.value()->ranking()->Rerank({.id = 1, .query = kQuery, .documents = Documents()});
    REQUIRE(input_tokens.ok());
    EXPECT_EQ(heard.End(1).usage.input_tokens, input_tokens.value());
    const std::vector<float> scores = heard.vectors[1];
    REQUIRE(scores.size() == Documents().size());

    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    std::vector<float> expected;
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::vector<Token> pair = Pair(*model, kQuery, Documents()[i]);
      tokens += pair.size();
      expected.push_back(test::PooledReference(*model, pair)[0]);
      // The batch shape changes the rounding.
      EXPECT(std::fabs(scores[i] - expected[i]) < 0.01F * (1 + std::fabs(expected[i])));
    }
    EXPECT_EQ(tokens, std::size_t{input_tokens.value()});
    EXPECT(Order(scores) == Order(expected));
    const auto [least, most] = std::ranges::minmax(scores);
    EXPECT(most - least > 0.1F);  // so the comparisons above are meaningful
  }
}

TEST(ALongDocumentIsRefusedOrCut) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    test::HeardVectors heard;
    const auto engine = test::LoadInto(heard, path);
    REQUIRE(engine.ok());
    RankingEngine* ranker = engine.value()->ranking();
    const std::uint32_t most = engine.value()->info().context_length;
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "river ";
    const Status refused =
        ranker->Rerank({.id = 1, .query = kQuery, .documents = {"a", text}}).status();
    EXPECT(refused.code() == StatusCode::kContextOverflow);
    EXPECT(refused.message().starts_with("documents[1] and the query have "));
    EXPECT(refused.message().ends_with("the model takes at most " + std::to_string(most)));
    const Status query = ranker->Rerank({.id = 1, .query = text, .documents = {"a"}}).status();
    EXPECT(query.code() == StatusCode::kContextOverflow);
    EXPECT(query.message().starts_with("query has "));
    EXPECT(ranker->Rerank({.id = 1, .query = text, .documents = {"a"}, .truncate = true})
               .status()
               .code() == StatusCode::kContextOverflow);

    const Result<std::uint32_t> cut =
        ranker->Rerank({.id = 2, .query = kQuery, .documents = {"a", text}, .truncate = true});
    REQUIRE(cut.ok());
    const GenerationOutput end = heard.End(2);
    EXPECT(end.status.ok());
    EXPECT(end.usage.truncated_tokens.value_or(0) > 3000 - most);
    EXPECT(end.usage.input_tokens > most && end.usage.input_tokens < most + 100);
    EXPECT_EQ(heard.vectors[2].size(), 2U);
    REQUIRE(ranker->Rerank({.id = 3, .query = kQuery, .documents = {"a"}, .truncate = true}).ok());
    EXPECT_EQ(heard.End(3).usage.truncated_tokens.value_or(7), 0U);
    EXPECT_EQ(heard.vectors[3][0], heard.vectors[2][0]);
  }
}

TEST(OnlySoManyTokensOfADocumentAreRead) {
  test::HeardVectors heard;
  const auto engine = test::LoadInto(heard, RankingBert());
  REQUIRE(engine.ok());
  const std::vector<std::string> documents = {"the river runs under", "the river", "the"};
  const Result<std::uint32_t> tokens = engine.value()->ranking()->Rerank(
      {.id = 1, .query = "a", .documents = documents, .max_document_tokens = 2});
  REQUIRE(tokens.ok());
  EXPECT_EQ(tokens.value(), 3U * 3 + 2 + 2 + 1);  // [CLS] a [SEP], and the documents
  EXPECT_EQ(heard.End(1).usage.truncated_tokens.value_or(0), 2U);
  const std::vector<float> scores = heard.vectors[1];
  EXPECT(std::fabs(scores[0] - scores[1]) < 1e-4F);
  EXPECT(std::fabs(scores[1] - scores[2]) > 1e-3F);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
