// Rows of pictures and sounds: their ids, where a text may be cut, and which run has a row.
#include "engine/model/media_rows.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "test.h"

namespace svc {
namespace {

constexpr SipTag kDigest = {1, 2};

TEST(IdsOfRowsAreNoTokens) {
  EXPECT(IsMediaToken(std::numeric_limits<Token>::min()));
  EXPECT(IsMediaToken(kMostMediaToken));
  EXPECT(!IsMediaToken(kMostMediaToken + 1));
  for (const Token token : {-3, -1, 0, 1, std::numeric_limits<Token>::max()}) {
    EXPECT(!IsMediaToken(token));
  }
  EXPECT(std::ranges::all_of(MediaTokens(kDigest, 10'000), IsMediaToken));
}

TEST(IdsTellRowsAndPicturesApart) {
  const std::vector<Token> rows = MediaTokens(kDigest, 1000);
  REQUIRE(rows.size() == 1000);
  EXPECT(MediaTokens(kDigest, 0).empty());
  EXPECT(MediaTokens(kDigest, 1000) == rows);
  // The number of rows does not matter to the first ones.
  EXPECT(MediaTokens(kDigest, 300) == std::vector<Token>(rows.begin(), rows.begin() + 300));
  std::set<Token> ids(rows.begin(), rows.end());
  EXPECT_EQ(ids.size(), 1000U);
  for (const SipTag& digest : {SipTag{1, 3}, SipTag{0, 2}, SipTag{2, 1}}) {
    const std::vector<Token> others = MediaTokens(digest, 1000);
    EXPECT(std::ranges::none_of(others, [&](Token token) { return ids.contains(token); }));
  }
}

TEST(APlaceIsRelativeWhereItSaysSo) {
  const MediaPlace place = {.offsets = {0, 3, 5, 7}, .is_relative = {true, false, true, false}};
  EXPECT(place.At(100) == (std::array<std::int32_t, 4>{100, 3, 105, 7}));
}

TEST(RowsAreFoundByTheirIndexInThePrompt) {
  const auto floats = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const MediaRows run = {.begin = 10, .count = 2, .width = 3, .embeddings = floats};
  EXPECT_EQ(run.end(), 12U);
  EXPECT_EQ(*run.Row(10), 1.0F);
  EXPECT_EQ(*run.Row(11), 4.0F);
}

// Tokens and rows in random order, compared with the definition.
TEST(ATextIsNeverCutWithinAPicture) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Token> tokens(random() % 30);
    const std::vector<Token> rows = MediaTokens(kDigest, 2);
    for (Token& token : tokens) {
      const auto kind = random() % 5;
      token = kind == 0 ? 5 : rows[kind == 1 ? 0 : 1];
    }
    for (std::uint32_t length = 0; length <= tokens.size(); ++length) {
      std::uint32_t longest = 0;
      for (std::uint32_t cut = 1; cut <= length; ++cut) {
        const bool parts = cut < tokens.size() && tokens[cut - 1] < 0 && tokens[cut] == rows[1];
        if (!parts) longest = cut;
      }
      EXPECT_EQ(WholePictures(tokens, length), longest);
    }
  }
}

TEST(OnlyWholePicturesAreShared) {
  const std::vector<Token> rows = MediaTokens(kDigest, 4);
  const std::vector<Token> others = MediaTokens({3, 4}, 4);
  const std::vector<Token> picture = {1, 2, rows[0], rows[1], rows[2], 3, 4};
  EXPECT_EQ(SharedLength(picture, picture), 7U);
  EXPECT_EQ(SharedLength(picture, std::vector<Token>{1, 2, rows[0], rows[1], rows[2], 3, 5}), 6U);
  EXPECT_EQ(SharedLength(picture, std::vector<Token>{1, 2, rows[0], rows[1], others[2], 3}), 2U);
  EXPECT_EQ(SharedLength(picture, std::vector<Token>{1, 2, others[0]}), 2U);
  EXPECT_EQ(SharedLength(picture, std::vector<Token>{1, 7}), 1U);
  EXPECT_EQ(SharedLength(picture, std::vector<Token>{}), 0U);
  // Side by side.
  const std::vector<Token> two = {1, rows[0], rows[1], others[0], others[1], 3};
  EXPECT_EQ(SharedLength(two, std::vector<Token>{1, rows[0], rows[1], rows[0], rows[1], 3}), 3U);
  EXPECT_EQ(SharedLength(two, std::vector<Token>{1, rows[0], rows[1], others[0], rows[1], 3}), 3U);
}

TEST(OnlyTheFirstRowBeginsAPicture) {
  const std::vector<Token> rows = MediaTokens(kDigest, 1000);
  EXPECT(BeginsMedia(rows[0]));
  EXPECT(std::ranges::none_of(rows.begin() + 1, rows.end(), BeginsMedia));
  EXPECT(!BeginsMedia(5) && !BeginsMedia(-1) && !BeginsMedia(kMostMediaToken));
}

// Random runs, also without a token between them, compared with a list of the run at each index.
TEST(EachIndexIsInTheRunThatHasIt) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<MediaRows> media;
    std::vector<int> run_at;  // -1: a token
    for (std::size_t runs = random() % 4; runs > 0; --runs) {
      run_at.insert(run_at.end(), random() % 4, -1);
      const auto begin = static_cast<std::uint32_t>(run_at.size());
      const auto count = static_cast<std::uint32_t>(1 + random() % 5);
      run_at.insert(run_at.end(), count, static_cast<int>(media.size()));
      media.push_back({.begin = begin, .count = count, .is_whole = random() % 2 == 0});
    }
    run_at.insert(run_at.end(), 10, -1);
    for (std::uint32_t index = 0; index < run_at.size() - 5; ++index) {
      const int at = run_at[index];
      EXPECT(MediaAt(media, index) == (at < 0 ? nullptr : &media[at]));
      const auto next =
          std::find_if(run_at.begin() + index, run_at.end(), [](int run) { return run >= 0; });
      EXPECT(MediaFrom(media, index) == (next == run_at.end() ? nullptr : &media[*next]));
      std::uint32_t same = 0;  // rows of the same run, or tokens, from here
      while (index + same < run_at.size() && run_at[index + same] == at) ++same;
      for (std::uint32_t rows = 1; rows <= 5; ++rows) {
        const bool is_whole = at >= 0 && media[at].is_whole;
        EXPECT_EQ(RowsOfOneKind(media, index, rows), is_whole ? same : std::min(rows, same));
      }
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
