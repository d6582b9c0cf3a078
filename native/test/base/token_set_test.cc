// Sets of tokens: at the borders of their words, and of whole vocabularies.
#include "engine/base/token_set.h"

#include <bit>

#include "test.h"

namespace svc {
namespace {

TEST(TokensAreAddedAndRemovedOneByOne) {
  TokenSet set(200);
  for (const Token token : {0, 63, 64, 127, 199}) {
    EXPECT(!set.Has(token));
    set.Add(token);
    set.Add(token);
    EXPECT(set.Has(token));
  }
  EXPECT(!set.Has(1) && !set.Has(62) && !set.Has(65) && !set.Has(128) && !set.Has(198));
  set.Remove(64);
  set.Remove(64);
  EXPECT(!set.Has(64) && set.Has(0) && set.Has(63) && set.Has(127));
}

TEST(ASetOfAllHasNoBitsBehindTheVocabulary) {
  for (const std::size_t vocabulary : {0U, 1U, 64U, 65U, 200U}) {
    const TokenSet all = TokenSet::All(vocabulary);
    std::size_t tokens = 0;
    for (const std::uint64_t word : all.words()) {
      tokens += static_cast<std::size_t>(std::popcount(word));
    }
    EXPECT_EQ(tokens, vocabulary);
    EXPECT_EQ(all.words().size(), (vocabulary + 63) / 64);
    EXPECT_EQ(all.bytes(), 8 * all.words().size());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
