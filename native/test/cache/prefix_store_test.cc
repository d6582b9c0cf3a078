// The disk tier alone: a read returns exactly the written bytes, or nothing.
#include "engine/cache/prefix_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include "engine/base/xxhash64.h"
#include "engine/cache/model_fingerprint.h"
#include "folder.h"
#include "test.h"

namespace svc {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using Tokens = std::vector<Token>;

constexpr Fingerprint kFingerprint = 77;
constexpr SipKey kKey = {3, 4};
constexpr PrefixSeal kSeal{.fingerprint = kFingerprint, .key = kKey};
constexpr PrefixSeal kOtherSeal{.fingerprint = kFingerprint + 1, .key = kKey};
constexpr ShareId kAll = 0;
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30U;
const std::atomic<bool> kNever = false;

std::uint64_t HashOf(const std::string& text) {
  return XxHash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

Tokens Sequence(Token first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
Tokens Join(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// Returns bytes that differ for each piece. The default length is odd, a multiple of no block size.
StateBytes StateOf(const PrefixHead& head, std::size_t bytes = 5003) {
  StateBytes state(bytes);
  std::uint64_t word = head.begin + 31 * head.tokens.size() + head.tokens.back();
  for (std::uint8_t& each : state) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    each = static_cast<std::uint8_t>(word >> 56U);
  }
  return state;
}

std::unique_ptr<PrefixStore> Open(const fs::path& folder, std::uint64_t max_bytes = kPlenty,
                                  Fingerprint fingerprint = kFingerprint,
                                  const std::string& model = "aa", bool divisible = true,
                                  const SipKey& key = kKey) {
  return PrefixStore::Open({.folder = folder,
                            .model = model,
                            .seal = {.fingerprint = fingerprint, .key = key},
                            .max_bytes = max_bytes,
                            .divisible = divisible});
}

std::chrono::steady_clock::time_point Soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

void Write(PrefixStore& store, const PrefixHead& head, std::size_t bytes = 5003) {
  store.Write(head, std::make_shared<const StateBytes>(StateOf(head, bytes)));
  EXPECT(store.WaitForWrite(Soon()));
}

// Returns all pieces of one fetch.
std::vector<FetchedPiece> Fetch(PrefixStore& store, const Tokens& tokens,
                                std::uint32_t covered = 0) {
  std::vector<FetchedPiece> pieces;
  if (!store.Fetch(1, kAll, tokens, covered)) return pieces;
  while (pieces.empty() || !pieces.back().last) {
    std::optional<FetchedPiece> piece;
    for (const auto end = Soon(); !piece && std::chrono::steady_clock::now() < end;) {
      piece = store.TakeFetched();
      if (!piece) std::this_thread::yield();
    }
    if (!piece) {
      test::Fail(__FILE__, __LINE__, "nothing was fetched");
      return pieces;
    }
    pieces.push_back(std::move(*piece));
  }
  return pieces;
}

TEST(TheChecksumIsXxHash64) {
  EXPECT_EQ(HashOf(""), 0xEF46DB3751D8E999ULL);
  EXPECT_EQ(HashOf("a"), 0xD24EC4F1A98C6E5BULL);
  EXPECT_EQ(HashOf("abc"), 0x44BC2CF5AD770999ULL);
  EXPECT_EQ(HashOf("The quick brown fox jumps over the lazy dog"), 0x0B242D361FDA71BCULL);
}

// Key and inputs of the reference implementation's vectors.h: bytes 0, 1, 2, ...
TEST(TagsAreSipHash) {
  const SipKey key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  std::vector<std::uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const auto expect = [&](std::size_t count, const SipTag& tag) {
    EXPECT(SipHash128(key, std::span(bytes).first(count)) == tag);
  };
  expect(0, {0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL});
  expect(1, {0x44af996bd8c187daULL, 0x45fc229b11597634ULL});
  expect(7, {0x53c1dbd8beebf1a1ULL, 0x3982f01fa64ab8c0ULL});
  expect(8, {0x61f55862baa9623bULL, 0xb49714f364e2830fULL});
  expect(15, {0x11a8b03399e99354ULL, 0xd9c3cf970fec087eULL});
  expect(63, {0x4a83502f77d15051ULL, 0x7cbd3f979a063e50ULL});
  EXPECT(DeriveKey(key, "a") != DeriveKey(key, "b"));
}

TEST(ATagOfPiecesIsThatOfTheWhole) {
  std::vector<std::uint8_t> bytes(1003);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const std::span<const std::uint8_t> all = bytes;
  for (const std::size_t piece : {8U, 64U, 1000U}) {
    SipHasher hasher(kKey);
    for (std::size_t at = 0; at < all.size(); at += piece) {
      hasher.Add(all.subspan(at, std::min(piece, all.size() - at)));
    }
    EXPECT(hasher.Finish() == SipHash128(kKey, all));
  }
}

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

TEST(APromptIsRestoredPieceByPiece) {
  const Folder folder;
  const Tokens shared = Sequence(0, 100);
  const Tokens one = Join(shared, Sequence(1000, 100));
  const Tokens two = Join(shared, Sequence(2000, 100));
  {
    const auto store = Open(folder.path() / "prefixes");
    Write(*store, {.tokens = one, .begin = 0});
    Write(*store, {.tokens = two, .begin = 100});
    Write(*store, {.tokens = Join(two, Sequence(3000, 100)), .begin = 200});
  }
  const auto store = Open(folder.path() / "prefixes");
  const Tokens prompt = Join(two, Sequence(3000, 150));
  EXPECT_EQ(store->Match(kAll, prompt, 0), 300U);
  EXPECT_EQ(store->Match(kAll, prompt, 250), 300U);
  const std::vector<FetchedPiece> pieces = Fetch(*store, prompt);
  REQUIRE(pieces.size() == 3);
  EXPECT_EQ(pieces[0].end, 100U);  // its rest belongs to another conversation
  EXPECT_EQ(pieces[1].end, 200U);
  EXPECT_EQ(pieces[2].end, 300U);
  for (const FetchedPiece& piece : pieces) EXPECT(piece.state == StateOf(piece.head));
  // Pieces already in memory are not read.
  EXPECT_EQ(Fetch(*store, prompt, 200).size(), 1U);
  // No fetch for too few tokens, nor for an unknown prompt.
  EXPECT(!store->Fetch(1, kAll, prompt, 250));
  EXPECT(!store->Fetch(1, kAll, Sequence(7, 300), 0));
}

TEST(AStateThatCannotBeCutIsOfUseAsAWhole) {
  const Folder folder;
  const auto store = Open(folder.path(), kPlenty, kFingerprint, "aa", /*divisible=*/false);
  Write(*store, {.tokens = Sequence(0, 100), .begin = 0});
  Write(*store, {.tokens = Sequence(0, 200), .begin = 0});
  EXPECT_EQ(folder.Files().size(), 2U);  // the longer one does not replace the shorter one
  EXPECT_EQ(store->Match(kAll, Sequence(0, 199), 0), 100U);
  EXPECT_EQ(store->Match(kAll, Sequence(0, 200), 0), 200U);
  EXPECT_EQ(store->Match(kAll, Sequence(0, 99), 0), 0U);
  EXPECT_EQ(Fetch(*store, Sequence(0, 250)).size(), 1U);
}

TEST(APieceThatHoldsAnotherTakesItsPlace) {
  const Folder folder;
  const auto store = Open(folder.path());
  Write(*store, {.tokens = Sequence(0, 100), .begin = 0});
  Write(*store, {.tokens = Sequence(0, 200), .begin = 100});
  EXPECT_EQ(folder.Files().size(), 2U);
  Write(*store, {.tokens = Sequence(0, 300), .begin = 0});
  EXPECT_EQ(folder.Files().size(), 1U);
  EXPECT_EQ(store->Match(kAll, Sequence(0, 300), 0), 300U);
}

TEST(DamagedAndForeignFilesAreMissesAndGo) {
  const Folder folder;
  const Tokens tokens = Sequence(0, 200);
  const auto damage = [&](std::size_t at) {
    std::fstream file(folder.Files().front(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<long>(at));
    file.put('!');
  };
  {
    const auto store = Open(folder.path());
    Write(*store, {.tokens = tokens, .begin = 0});
    damage(200 * 4 + 1000);  // in the state; the index does not notice
    EXPECT_EQ(store->Match(kAll, tokens, 0), 200U);
    const std::vector<FetchedPiece> pieces = Fetch(*store, tokens);
    REQUIRE(pieces.size() == 1);
    EXPECT(pieces[0].state.empty());
    EXPECT_EQ(store->Match(kAll, tokens, 0), 0U);
    EXPECT_EQ(folder.Files().size(), 0U);

    Write(*store, {.tokens = tokens, .begin = 0});
    damage(100);  // in the head
  }
  EXPECT_EQ(Open(folder.path())->Match(kAll, tokens, 0), 0U);
  EXPECT_EQ(folder.Files().size(), 0U);

  Write(*Open(folder.path()), {.tokens = tokens, .begin = 0});
  Write(*Open(folder.path(), kPlenty, 5, "bb"), {.tokens = tokens, .begin = 0});
  // Files of another version or other settings of this model stay, because those may return. Files
  // of another model are not touched.
  EXPECT_EQ(Open(folder.path(), kPlenty, kFingerprint + 1)->Match(kAll, tokens, 0), 0U);
  EXPECT_EQ(folder.Files().size(), 2U);
  EXPECT_EQ(Open(folder.path())->Match(kAll, tokens, 0), 200U);
  EXPECT_EQ(Open(folder.path(), kPlenty, 5, "bb")->Match(kAll, tokens, 0), 200U);
}

TEST(ForgedFilesAreMissesAndGo) {
  const Folder folder;
  const Folder elsewhere;
  const Tokens tokens = Sequence(0, 200);
  // Sealed with another key and copied to the file name that this installation would use.
  Write(*Open(elsewhere.path(), kPlenty, kFingerprint, "aa", true, {8, 9}),
        {.tokens = tokens, .begin = 0});
  {
    const auto store = Open(folder.path());
    Write(*store, {.tokens = tokens, .begin = 0});
    REQUIRE(folder.Files().size() == 1);
    const fs::path own = folder.Files().front();
    const fs::path forged = elsewhere.Files().front();
    EXPECT(own.filename() != forged.filename());  // a name reveals nothing about the prompt either
    fs::copy_file(forged, own, fs::copy_options::overwrite_existing);
    const std::vector<FetchedPiece> pieces = Fetch(*store, tokens);
    REQUIRE(pieces.size() == 1);
    EXPECT(pieces[0].state.empty());
    EXPECT_EQ(folder.Files().size(), 0U);
    fs::copy_file(forged, own);
  }
  EXPECT_EQ(Open(folder.path())->Match(kAll, tokens, 0), 0U);
  EXPECT_EQ(folder.Files().size(), 0U);
}

TEST(PiecesOfASaltAreFoundUnderItAlone) {
  const Folder folder;
  const Tokens tokens = Sequence(0, 200);
  {
    const auto store = Open(folder.path());
    for (const ShareId salt : {1U, 2U}) {
      Write(*store, {.tokens = tokens, .begin = 0, .scope = {.salt = salt, .owner = salt}});
    }
    EXPECT_EQ(folder.Files().size(), 2U);
  }
  const auto store = Open(folder.path());
  EXPECT_EQ(store->Match(1, tokens, 0), 200U);
  EXPECT_EQ(store->Match(2, tokens, 0), 200U);
  EXPECT_EQ(store->Match(3, tokens, 0), 0U);
  EXPECT_EQ(store->Match(kAll, tokens, 0), 0U);
  EXPECT(!store->Fetch(1, 3, tokens, 0));
  REQUIRE(store->Fetch(1, 2, tokens, 0));
  std::optional<FetchedPiece> piece;
  for (const auto end = Soon(); !piece && std::chrono::steady_clock::now() < end;) {
    piece = store->TakeFetched();
    if (!piece) std::this_thread::yield();
  }
  REQUIRE(piece.has_value());
  EXPECT_EQ(piece->head.scope.salt, 2U);
  EXPECT_EQ(piece->head.scope.owner, 2U);
}

TEST(TheFolderIsBoundedAndWhatWasUsedStays) {
  const Folder folder;
  constexpr std::size_t kBytes = 10'000;
  constexpr std::uint64_t kBound = 3 * (kBytes + 1000);
  const auto size = [&] {
    std::uintmax_t total = 0;
    for (const fs::path& file : folder.Files()) total += fs::file_size(file);
    return total;
  };
  const auto prompt = [](int which) { return Sequence(1000 * which, 100); };
  // The file system's clock may be coarse: sets all times to two hours ago, in order, 1 s apart.
  const auto age = [&] {
    auto at = fs::file_time_type::clock::now() - std::chrono::hours(2);
    std::vector<fs::path> files = folder.Files();
    std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
      return fs::last_write_time(a) < fs::last_write_time(b);
    });
    for (const fs::path& file : files) fs::last_write_time(file, at += std::chrono::seconds(1));
  };
  const auto store = Open(folder.path(), kBound);
  for (int i = 1; i <= 3; ++i) {
    Write(*store, {.tokens = prompt(i), .begin = 0}, kBytes);
    age();
  }
  EXPECT_EQ(Fetch(*store, prompt(1)).size(), 1U);
  // A store of another model, which does not know these files.
  Write(*Open(folder.path(), kBound, kFingerprint, "bb"), {.tokens = prompt(4), .begin = 0},
        kBytes);
  EXPECT(size() <= kBound);
  EXPECT_EQ(folder.Files().size(), 3U);
  EXPECT_EQ(Fetch(*store, prompt(1)).size(), 1U);
  EXPECT_EQ(Fetch(*store, prompt(3)).size(), 1U);
  // Deleted without the store's knowledge: a miss.
  const std::vector<FetchedPiece> gone = Fetch(*store, prompt(2));
  EXPECT(gone.size() == 1 && gone[0].state.empty());
  EXPECT(Fetch(*store, prompt(2)).empty());

  // Larger than the bound.
  Write(*store, {.tokens = prompt(5), .begin = 0}, kBound);
  EXPECT_EQ(store->Match(kAll, prompt(5), 0), 0U);
  EXPECT_EQ(folder.Files().size(), 3U);
  // Open enforces a smaller bound at once.
  (void)Open(folder.path(), kBytes + 1000);
  EXPECT_EQ(folder.Files().size(), 1U);
}

// Written piece by piece and never read: the pieces that are evicted are the last ones.
TEST(ThePromptsEndGoesFirst) {
  const Folder folder;
  const Tokens tokens = Sequence(0, 400);
  const Tokens other = Sequence(10'000, 100);
  const auto piece = [&](std::uint32_t begin) {
    return PrefixHead{.tokens = {tokens.begin(), tokens.begin() + begin + 100}, .begin = begin};
  };
  std::uint64_t bytes = 0;
  for (const std::uint32_t begin : {0U, 100U, 200U, 300U}) {
    bytes += PrefixFileBytes(piece(begin), 5003);
  }
  const auto store = Open(folder.path(), bytes);
  for (const std::uint32_t begin : {0U, 100U, 200U, 300U}) Write(*store, piece(begin));
  EXPECT_EQ(Fetch(*store, tokens).size(), 4U);
  const auto fresh = Open(folder.path() / "fresh", bytes);
  for (const std::uint32_t begin : {0U, 100U, 200U, 300U}) Write(*fresh, piece(begin));
  Write(*fresh, {.tokens = other, .begin = 0});
  EXPECT_EQ(Fetch(*fresh, tokens).size(), 3U);
}

TEST(FilesAreTheirOwnersAlone) {
  const Folder folder;
  const fs::path inside = folder.path() / "made" / "prefixes";
  const auto store = Open(inside);
  REQUIRE(store != nullptr);
  Write(*store, {.tokens = Sequence(0, 100), .begin = 0});
  const auto mode = [](const fs::path& path) {
    struct stat found {};
    EXPECT(stat(path.c_str(), &found) == 0);
    return found.st_mode & 0777U;
  };
  EXPECT_EQ(mode(inside), 0700U);
  EXPECT_EQ(mode(inside.parent_path()), 0700U);
  EXPECT_EQ(mode(folder.Files("made/prefixes").front()), 0600U);

  // A symbolic link as folder is refused: it may lead anywhere.
  fs::create_directory_symlink(inside, folder.path() / "link");
  EXPECT(Open(folder.path() / "link") == nullptr);
}

TEST(WhatWasLeftUnfinishedGoesWhenItIsOld) {
  const Folder folder;
  for (const char* name : {"aa-1.prefix.1.unfinished", "aa-2.prefix.2.unfinished"}) {
    std::ofstream(folder.path() / name) << "begun";
  }
  fs::last_write_time(folder.path() / "aa-1.prefix.1.unfinished",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  (void)Open(folder.path());
  REQUIRE(folder.Files().size() == 1);
  EXPECT_EQ(folder.Files().front().filename().string(), "aa-2.prefix.2.unfinished");
}

TEST(TwoStoresShareAFolder) {
  const Folder folder;
  const auto one = Open(folder.path());
  const auto two = Open(folder.path());
  std::vector<std::thread> threads;
  for (PrefixStore* store : {one.get(), two.get()}) {
    threads.emplace_back([store] {
      // The same pieces, at the same time.
      for (int i = 0; i < 20; ++i) {
        Write(*store, {.tokens = Sequence(1000 * i, 100), .begin = 0}, 100'000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(folder.Files().size(), 20U);
  for (int i = 0; i < 20; ++i) {
    const std::vector<FetchedPiece> pieces = Fetch(*two, Sequence(1000 * i, 100));
    REQUIRE(pieces.size() == 1);
    EXPECT(pieces[0].state == StateOf(pieces[0].head, 100'000));
  }
}

// Whole states: the last two of a conversation stay, and those that others need.
TEST(AGrowingConversationEvictsItsOwnStatesFirst) {
  const Folder folder;
  const std::uint64_t largest = PrefixFileBytes({.tokens = Sequence(0, 700)}, 5003);
  const auto store = Open(folder.path(), 4 * largest, kFingerprint, "aa", /*divisible=*/false);
  const Tokens shared = Sequence(0, 100);
  const Tokens other = Join(shared, Sequence(5000, 150));
  Write(*store, {.tokens = other});
  Write(*store, {.tokens = shared});
  for (const std::size_t length : {200U, 300U, 400U, 500U, 600U}) {
    Write(*store, {.tokens = Sequence(0, length)});
  }
  EXPECT_EQ(folder.Files().size(), 4U);
  EXPECT_EQ(store->Match(kAll, Join(other, {1}), 0), other.size());
  EXPECT_EQ(store->Match(kAll, Join(shared, {1}), 0), shared.size());
  EXPECT_EQ(store->Match(kAll, Sequence(0, 599), 0), 500U);
  EXPECT_EQ(store->Match(kAll, Sequence(0, 700), 0), 600U);
}

TEST(ClosingWaitsForNoDisk) {
  const Folder folder;
  const auto store = Open(folder.path());
  const PrefixHead head{.tokens = Sequence(0, 100), .begin = 0};
  store->Write(head, std::make_shared<const StateBytes>(StateOf(head, 64U << 20U)));
  store->Close();
  store->Close();
  // Each file is complete or absent.
  for (const fs::path& file : folder.Files()) {
    EXPECT(ReadPrefixState(file, kSeal, head, kNever).has_value());
  }
}

// However far the read was, the file is good and stays.
TEST(ClosingDuringAReadDeletesNothing) {
  const Folder folder;
  const PrefixHead head{.tokens = Sequence(0, 100), .begin = 0};
  {
    const auto store = Open(folder.path());
    Write(*store, head, 32U << 20U);
  }
  for (int i = 0; i < 5; ++i) {
    const auto store = Open(folder.path());
    EXPECT(store->Fetch(1, kAll, head.tokens, 0) > 0);
    for (int n = 0; n < 100 * i; ++n) std::this_thread::yield();
    store->Close();
    REQUIRE(folder.Files().size() == 1);
  }
  EXPECT(ReadPrefixState(folder.Files().front(), kSeal, head, kNever).has_value());
}

TEST(AFingerprintIsOfTheFileAndTheVersion) {
  const Folder folder;
  const std::string path = folder.path() / "model";
  const auto at = fs::file_time_type::clock::now();
  const auto put = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    fs::last_write_time(path, at);
  };
  const std::string bytes(3'000'000, 'm');
  put(bytes);
  const Fingerprint first = FingerprintOf(path, "1");
  EXPECT_EQ(FingerprintOf(path, "1"), first);
  EXPECT(FingerprintOf(path, "2") != first);
  for (const std::size_t changed : {std::size_t{0}, bytes.size() - 1}) {
    std::string other = bytes;
    other[changed] = 'x';
    put(other);
    EXPECT(FingerprintOf(path, "1") != first);
  }
  put(bytes + "m");
  EXPECT(FingerprintOf(path, "1") != first);
  put(bytes);
  fs::last_write_time(path, at - std::chrono::seconds(1));
  EXPECT(FingerprintOf(path, "1") != first);
  for (const char* small : {"", "ab", "ac"}) {
    put(small);
    EXPECT(FingerprintOf(path, "1") != first);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
