// The input of a model that ranks: the tokens of a query and a document, and what is cut where they
// are too many.
#include "engine/llama/prompt/rank_prompt.h"

#include <algorithm>
#include <string>
#include <vector>

#include "models.h"
#include "rank_pairs.h"
#include "test.h"

namespace svc {
namespace {

using test::Pair;
using test::RankingBert;
using test::RankingQwen;
using test::Tokenize;

constexpr const char* kQuery = "what runs under the bridge?";

const std::vector<std::string>& Documents() {
  static const std::vector<std::string> documents = {
      "the river runs under the old bridge", "seven boats wait", "", "Grüße aus Köln! 你好，世界。",
      "def fibonacci(n):\n    return n"};
  return documents;
}

TEST(APromptHasTheTokensOfLlamaServer) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const RankPrompt prompt(*model);
    const Result<RankQuery> query = prompt.Read(kQuery);
    REQUIRE(query.ok());
    for (const std::string& document : Documents()) {
      EXPECT(prompt.Tokens(query.value(), document).value() == Pair(*model, kQuery, document));
    }
  }
}

TEST(TextNeverBecomesAControlTokenOrAPlaceholder) {
  const auto model = test::LoadTinyModel(RankingQwen());
  REQUIRE(model != nullptr);
  const RankPrompt prompt(*model);
  const Token end = Tokenize(*model, "<|im_end|>", /*parse_special=*/true)[0];
  const auto ends = [&](const std::string& query, const std::string& document) {
    const auto tokens = prompt.Tokens(prompt.Read(query).value(), document).value();
    return std::ranges::count(tokens, end);
  };
  EXPECT_EQ(ends("a", "b"), 2);
  EXPECT_EQ(ends("a<|im_end|>", "<|im_end|>b"), 2);
  EXPECT_EQ(ends("a<|im_", "end|>b"), 2);
  // A query with a placeholder is not filled in.
  const auto tokens = prompt.Tokens(prompt.Read("x {document} y").value(), "secret").value();
  EXPECT(model->Detokenize(tokens, true)
             .find("<Query>: x {document} y\n<Document>: secret<|im_end|>") != std::string::npos);
}

TEST(PlaceholdersInTextsStayWhatTheyAre) {
  const auto model = test::LoadTinyModel(RankingQwen());
  REQUIRE(model != nullptr);
  const RankPrompt prompt(*model);
  const auto written = [&](const std::string& query, const std::string& document) {
    return model->Detokenize(prompt.Tokens(prompt.Read(query).value(), document).value(), true);
  };
  EXPECT(written("{query}", "{query} {document}")
             .find("<Query>: {query}\n<Document>: {query} {document}<|im_end|>") !=
         std::string::npos);
  // Not even with control tokens, of which the text is guarded.
  EXPECT(written("{document}<|im_end|>", "{query}")
             .find("<Query>: {document}<|im_end|>\n<Document>: {query}<|im_end|>") !=
         std::string::npos);
}

TEST(TextsWithControlTokensAndAllGuardsAreRefused) {
  const auto model = test::LoadTinyModel(RankingQwen());
  REQUIRE(model != nullptr);
  const RankPrompt prompt(*model);
  std::string guards;
  for (int last = 0; last < 256; ++last) {
    guards += std::string("\xF4\x8F") + static_cast<char>(0xBC + last / 64) +
              static_cast<char>(0x80 + last % 64);
  }
  const auto read = [&](const std::string& query, const std::string& document) {
    return prompt.Tokens(prompt.Read(query).value(), document).status();
  };
  EXPECT(read("a", guards).ok());
  EXPECT(read("<|im_end|>", guards.substr(4)).ok());
  EXPECT_EQ(read("<|im_end|>", guards).code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(read(guards.substr(0, 400), guards.substr(400) + "<|im_end|>").code(),
            StatusCode::kInvalidRequest);
  EXPECT_EQ(
      prompt.Cut(prompt.Read(guards).value(), "<|im_end|>", {.max_tokens = 10'000}).status().code(),
      StatusCode::kInvalidRequest);
}

// ---- cutting ------------------------------------------------------------------------------------

TEST(WhatFitsIsNotCut) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const RankPrompt prompt(*model);
    const RankQuery query = prompt.Read(kQuery).value();
    for (const std::string& document : Documents()) {
      const std::vector<Token> whole = prompt.Tokens(query, document).value();
      const auto size = static_cast<std::uint32_t>(whole.size());
      const auto alone =
          static_cast<std::uint32_t>(Tokenize(*model, document, /*parse_special=*/false).size());
      for (const RankPrompt::Limits& limits :
           {RankPrompt::Limits{.max_tokens = size},
            RankPrompt::Limits{.max_tokens = size, .max_document_tokens = alone}}) {
        const Result<RankInput> cut = prompt.Cut(query, document, limits);
        REQUIRE(cut.ok());
        EXPECT(cut.value().tokens == whole);
        EXPECT_EQ(cut.value().truncated_tokens, 0U);
      }
    }
  }
}

TEST(OfADocumentThatIsTooLongTheBeginningIsLeft) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const RankPrompt prompt(*model);
    const RankQuery query = prompt.Read(kQuery).value();
    const auto alone = static_cast<std::uint32_t>(prompt.Tokens(query, "").value().size());
    for (const std::string document :
         {"the river runs under the old bridge and the river runs under the old bridge",
          "Grüße aus Köln! 你好，世界。 Grüße aus Köln! 你好，世界。"}) {
      const auto whole = static_cast<std::uint32_t>(prompt.Tokens(query, document).value().size());
      std::size_t longest = 0;
      for (std::uint32_t most = alone; most < whole; ++most) {
        const Result<RankInput> cut = prompt.Cut(query, document, {.max_tokens = most});
        REQUIRE(cut.ok());
        const std::vector<Token>& tokens = cut.value().tokens;
        EXPECT(tokens.size() >= alone && tokens.size() <= most);
        EXPECT_EQ(cut.value().truncated_tokens, whole - tokens.size());
        // It is the input of a beginning of the document, with whole characters.
        std::size_t kept = 0;
        bool is_beginning = false;
        for (std::size_t size = 0; size < document.size() && !is_beginning; ++size) {
          const bool is_whole = (static_cast<unsigned char>(document[size]) & 0xC0U) != 0x80;
          const std::string beginning = document.substr(0, size);
          is_beginning = is_whole && prompt.Tokens(query, beginning).value() == tokens;
          if (is_beginning) kept = size;
        }
        EXPECT(is_beginning);
        EXPECT(kept >= longest);
        longest = kept;
      }
      EXPECT(longest > document.size() / 2);
    }
  }
}

TEST(ADocumentHasALimitOfItsOwn) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const RankPrompt prompt(*model);
    const RankQuery query = prompt.Read(kQuery).value();
    const std::string document = "the river runs under the old bridge";
    const auto read = [&](const std::string& text) { return prompt.Tokens(query, text).value(); };
    const auto cut = [&](RankPrompt::Limits limits) {
      return prompt.Cut(query, document, limits).value();
    };
    const auto whole =
        static_cast<std::uint32_t>(Tokenize(*model, document, /*parse_special=*/false).size());
    EXPECT(cut({.max_tokens = 1000, .max_document_tokens = 0}).tokens == read(""));
    EXPECT_EQ(cut({.max_tokens = 1000, .max_document_tokens = 0}).truncated_tokens, whole);
    const RankInput two = cut({.max_tokens = 1000, .max_document_tokens = 2});
    const auto is_of = [&](std::string_view beginning) {
      return two.tokens == read(std::string(beginning));
    };
    std::size_t kept = document.size();
    while (kept > 0 && !is_of(std::string_view(document).substr(0, kept))) --kept;
    EXPECT(kept > 0);
    EXPECT_EQ(two.truncated_tokens, whole - 2);
    // What the second limit takes away is counted, too.
    const auto most = static_cast<std::uint32_t>(read("the").size());
    const RankInput one = cut({.max_tokens = most, .max_document_tokens = 2});
    EXPECT(one.tokens.size() <= most);
    EXPECT_EQ(one.truncated_tokens, two.truncated_tokens + two.tokens.size() - one.tokens.size());
  }
}

TEST(AQueryThatDoesNotFitIsReturnedWithoutADocument) {
  for (const std::string& path : {RankingBert(), RankingQwen()}) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const RankPrompt prompt(*model);
    const RankQuery query = prompt.Read(kQuery).value();
    const std::vector<Token> alone = prompt.Tokens(query, "").value();
    for (const std::uint32_t most : {0U, 1U, static_cast<std::uint32_t>(alone.size()) - 1}) {
      const RankInput cut = prompt.Cut(query, "the river", {.max_tokens = most}).value();
      EXPECT(cut.tokens == alone);
      EXPECT(cut.truncated_tokens > 0);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
