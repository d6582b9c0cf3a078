// Scopes of prompts: hashes of shares, and salts of sets of adapters.
#include "engine/base/share.h"

#include <set>

#include "test.h"

namespace svc {
namespace {

constexpr SipKey kKey = {1, 2};

TEST(TheSaltOfASetDependsOnItsAdaptersAndTheirScalesAndNotOnTheirOrder) {
  EXPECT_EQ(SaltWith(kKey, 0, {}), 0U);
  EXPECT_EQ(SaltWith(kKey, 7, {}), 7U);
  EXPECT_EQ(SaltWith(kKey, 7, {{11, 0.5F}, {12, 1}}), SaltWith(kKey, 7, {{12, 1}, {11, 0.5F}}));
  const std::set<ShareId> salts = {
      0,
      7,
      SaltWith(kKey, 0, {{11, 1}}),
      SaltWith(kKey, 7, {{11, 1}}),
      SaltWith(kKey, 7, {{11, -1}}),
      SaltWith(kKey, 7, {{11, 0.5F}}),
      SaltWith(kKey, 7, {{12, 0.5F}}),
      SaltWith(kKey, 7, {{11, 0.5F}, {12, 1}}),
      SaltWith(kKey, 7, {{11, 1}, {12, 0.5F}}),
      SaltWith({1, 3}, 7, {{11, 1}}),
  };
  EXPECT_EQ(salts.size(), 10U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
