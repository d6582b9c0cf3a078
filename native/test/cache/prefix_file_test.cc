// The files of saved prefixes: a read returns exactly the written bytes, or nothing.
#include "engine/cache/prefix_file.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "folder.h"
#include "prefix_files.h"

namespace svc {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::Sequence;
using test::StateOf;

constexpr Fingerprint kFingerprint = 77;
constexpr SipKey kKey = {3, 4};
constexpr PrefixSeal kSeal{.fingerprint = kFingerprint, .key = kKey};
constexpr PrefixSeal kOtherSeal{.fingerprint = kFingerprint + 1, .key = kKey};
const std::atomic<bool> kNever = false;

TEST(AFileIsReadAsItWasWritten) {
  const Folder folder;
  const fs::path path = folder.path() / "x.prefix";
  const PrefixHead head{.tokens = Sequence(5, 100), .begin = 30};
  const StateBytes state = StateOf(head);
  REQUIRE(WritePrefixFile(path, kSeal, head, state, kNever));
  EXPECT_EQ(fs::file_size(path), PrefixFileBytes(head, state.size()));
  const auto found = ReadPrefixHead(path, kSeal);
  REQUIRE(found.has_value());
  EXPECT(found->tokens == head.tokens);
  EXPECT_EQ(found->begin, head.begin);
  const auto read = ReadPrefixState(path, kSeal, head, kNever);
  REQUIRE(read.has_value());
  EXPECT(*read == state);
  EXPECT_EQ(folder.Files().size(), 1U);  // nothing unfinished beside it

  EXPECT(!ReadPrefixHead(path, kOtherSeal));
  EXPECT(!ReadPrefixState(path, kOtherSeal, head, kNever));
  // Written with the key of another installation.
  const PrefixSeal forged{.fingerprint = kFingerprint, .key = {kKey[0], kKey[1] + 1}};
  EXPECT(!ReadPrefixHead(path, forged));
  EXPECT(!ReadPrefixState(path, forged, head, kNever));
  PrefixHead other = head;
  ++other.tokens[40];
  EXPECT(!ReadPrefixState(path, kSeal, other, kNever));
}

// States are read and written in pieces of 1 MiB.
TEST(AStateOfManyPiecesIsReadAsItWasWritten) {
  const Folder folder;
  const fs::path path = folder.path() / "x.prefix";
  const PrefixHead head{.tokens = Sequence(5, 101), .begin = 0};
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  for (const std::size_t bytes : {kPiece - 1, kPiece, kPiece + 3, 3 * kPiece + 8}) {
    const StateBytes state = StateOf(head, bytes);
    REQUIRE(WritePrefixFile(path, kSeal, head, state, kNever));
    EXPECT_EQ(fs::file_size(path), PrefixFileBytes(head, state.size()));
    const auto read = ReadPrefixState(path, kSeal, head, kNever);
    REQUIRE(read.has_value());
    EXPECT(*read == state);
    // The last byte of a piece in the middle.
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<long>(PrefixFileBytes(head, std::min(bytes, kPiece)) - 1));
    file.put(static_cast<char>(state[std::min(bytes, kPiece) - 1] ^ 1));
    file.close();
    EXPECT(!ReadPrefixState(path, kSeal, head, kNever));
  }
}

TEST(EveryDamageIsFound) {
  const Folder folder;
  const fs::path path = folder.path() / "x.prefix";
  const PrefixHead head{.tokens = Sequence(5, 80), .begin = 16};
  REQUIRE(WritePrefixFile(path, kSeal, head, StateOf(head, 700), kNever));
  std::string whole(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(whole.data(), static_cast<long>(whole.size()));
  const auto put = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  // One flipped bit in every byte, and a truncation at every length.
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    put(damaged);
    if (ReadPrefixState(path, kSeal, head, kNever)) {
      test::Fail(__FILE__, __LINE__, "damaged byte " + std::to_string(at) + " was not detected");
    }
    put(whole.substr(0, at));
    if (ReadPrefixState(path, kSeal, head, kNever)) {
      test::Fail(__FILE__, __LINE__, "truncation to " + std::to_string(at) + " was not detected");
    }
  }
  put(whole + "x");
  EXPECT(!ReadPrefixState(path, kSeal, head, kNever));
  put(whole);
  EXPECT(ReadPrefixState(path, kSeal, head, kNever).has_value());
}

TEST(AReadThatIsGivenUpReturnsNothing) {
  const Folder folder;
  const fs::path path = folder.path() / "x.prefix";
  const std::atomic<bool> abandon = true;
  const PrefixHead head{.tokens = Sequence(5, 80), .begin = 0};
  REQUIRE(WritePrefixFile(path, kSeal, head, StateOf(head), kNever));
  EXPECT(!ReadPrefixState(path, kSeal, head, abandon));
  EXPECT(ReadPrefixState(path, kSeal, head, kNever).has_value());
}

TEST(AWriteThatIsGivenUpLeavesNothing) {
  const Folder folder;
  const std::atomic<bool> abandon = true;
  const PrefixHead head{.tokens = Sequence(5, 80), .begin = 0};
  EXPECT(!WritePrefixFile(folder.path() / "x.prefix", kSeal, head, StateOf(head), abandon));
  EXPECT(!WritePrefixFile(folder.path() / "no" / "x.prefix", kSeal, head, StateOf(head), kNever));
  EXPECT_EQ(folder.Files().size(), 0U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
