#include "engine/cache/checkpoints.h"

#include <numeric>

#include "test.h"

namespace svc {
namespace {

using Tokens = std::vector<Token>;

constexpr PrefixScope kAll;

Tokens Sequence(Token first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
std::shared_ptr<const StateBytes> Bytes(std::size_t count) {
  return std::make_shared<const StateBytes>(count);
}

TEST(TheLongestThatBeginsAPromptIsTaken) {
  Checkpoints checkpoints(1000);
  EXPECT(checkpoints.Take(kAll, Sequence(0, 300)) == nullptr);
  checkpoints.Put(kAll, Sequence(0, 100), Bytes(10));
  checkpoints.Put(kAll, Sequence(0, 200), Bytes(20));
  checkpoints.Put(kAll, Sequence(5, 250), Bytes(30));
  const auto* found = checkpoints.Take(kAll, Sequence(0, 300));
  REQUIRE(found != nullptr);
  EXPECT_EQ(found->tokens.size(), 200U);
  EXPECT_EQ(found->state->size(), 20U);
  EXPECT_EQ(checkpoints.Match(kAll, Sequence(0, 199)), 100U);
  EXPECT_EQ(checkpoints.Match(kAll, Sequence(0, 99)), 0U);
  EXPECT(checkpoints.Has(kAll, Sequence(0, 200)));
  EXPECT(!checkpoints.Has(kAll, Sequence(0, 201)));
}

TEST(TheirBytesAreBoundedAndTheOldestGo) {
  Checkpoints checkpoints(100);
  for (Token i = 0; i < 4; ++i) checkpoints.Put(kAll, Sequence(i, 70), Bytes(25));
  (void)checkpoints.Take(kAll, Sequence(0, 80));
  checkpoints.Put(kAll, Sequence(9, 70), Bytes(25));
  EXPECT_EQ(checkpoints.bytes(), 100U);
  EXPECT(checkpoints.Has(kAll, Sequence(0, 70)));
  EXPECT(!checkpoints.Has(kAll, Sequence(1, 70)));
  // A repeated checkpoint counts once; one larger than the limit is not stored.
  checkpoints.Put(kAll, Sequence(9, 70), Bytes(20));
  EXPECT_EQ(checkpoints.bytes(), 95U);
  checkpoints.Put(kAll, Sequence(8, 70), Bytes(101));
  EXPECT_EQ(checkpoints.bytes(), 95U);
}

TEST(RoomIsMadeBeforeAStateIsCopied) {
  Checkpoints checkpoints(100);
  checkpoints.Put(kAll, Sequence(0, 70), Bytes(40));
  checkpoints.Put(kAll, Sequence(1, 70), Bytes(40));
  // What cannot fit evicts nothing.
  EXPECT(!checkpoints.MakeRoom(101));
  EXPECT_EQ(checkpoints.bytes(), 80U);
  EXPECT(checkpoints.MakeRoom(20));
  EXPECT_EQ(checkpoints.bytes(), 80U);
  EXPECT(checkpoints.MakeRoom(50));
  EXPECT_EQ(checkpoints.bytes(), 40U);
  EXPECT(checkpoints.Has(kAll, Sequence(1, 70)));
}

TEST(StatesOnTheirWayToAndFromTheDiskCount) {
  Checkpoints checkpoints(100);
  checkpoints.Put(kAll, Sequence(0, 70), Bytes(40));
  checkpoints.Put(kAll, Sequence(1, 70), Bytes(40));
  checkpoints.SetWritten(checkpoints.Take(kAll, Sequence(0, 70))->state);
  EXPECT_EQ(checkpoints.max_read_bytes(), 60U);
  // Evicting the one that is being written would free nothing.
  EXPECT(!checkpoints.MakeRoom(61));
  checkpoints.SetRead(30);
  EXPECT_EQ(checkpoints.bytes(), 40U);
  EXPECT(checkpoints.Has(kAll, Sequence(0, 70)));
  EXPECT(!checkpoints.MakeRoom(31));
  EXPECT(checkpoints.MakeRoom(30));
  checkpoints.SetRead(0);
  checkpoints.SetWritten(nullptr);
  EXPECT(checkpoints.MakeRoom(100));
  EXPECT_EQ(checkpoints.bytes(), 0U);
}

TEST(APromptIsCutAWholeTileBeforeItsEnd) {
  const Checkpoints checkpoints(1000);
  const auto cut = [&](std::size_t prompt, std::uint32_t computed, std::uint32_t rows) {
    return checkpoints.CutRows(kAll, Sequence(0, prompt), computed, rows);
  };
  EXPECT_EQ(cut(127, 0, 127), 127U);  // too short to be worth it
  EXPECT_EQ(cut(128, 0, 128), 64U);
  EXPECT_EQ(cut(200, 0, 200), 128U);
  EXPECT_EQ(cut(255, 0, 255), 128U);
  EXPECT_EQ(cut(256, 0, 256), 192U);
  EXPECT_EQ(cut(256, 192, 64), 64U);
  EXPECT_EQ(cut(256, 64, 64), 64U);
  EXPECT_EQ(cut(256, 100, 156), 92U);
  EXPECT(checkpoints.BelongsAt(kAll, Sequence(0, 256), 192));
  EXPECT(!checkpoints.BelongsAt(kAll, Sequence(0, 256), 128));
  EXPECT(!checkpoints.BelongsAt(kAll, Sequence(0, 256), 256));
}

TEST(APromptIsCutWhereItPartsFromOneThatCameBefore) {
  Checkpoints checkpoints(1000);
  Tokens before = Sequence(0, 150);
  before.insert(before.end(), 100, -1);
  checkpoints.Put(kAll, before, Bytes(10));
  const Tokens prompt = Sequence(0, 400);
  EXPECT_EQ(checkpoints.CutRows(kAll, prompt, 0, 400), 128U);
  EXPECT_EQ(checkpoints.CutRows(kAll, prompt, 128, 272), 192U);  // near the end too
  EXPECT(checkpoints.BelongsAt(kAll, prompt, 128));
  checkpoints.Put(kAll, Sequence(0, 128), Bytes(10));
  EXPECT(!checkpoints.BelongsAt(kAll, prompt, 128));  // it exists already
}

}  // namespace
}  // namespace svc

TEST_MAIN()
