// The disk tier alone: a read returns exactly the written bytes, or nothing.
#include "engine/cache/prefix_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "failing_memory.h"
#include "folder.h"
#include "prefix_files.h"

#ifdef __GLIBC__
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace svc {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using test::Sequence;
using test::StateOf;
using test::Tokens;

constexpr Fingerprint kFingerprint = 77;
constexpr SipKey kKey = {3, 4};
constexpr PrefixSeal kSeal{.fingerprint = kFingerprint, .key = kKey};
constexpr ShareId kAll = 0;
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30U;
const std::atomic<bool> kNever = false;

Tokens Join(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
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
  return std::chrono::steady_clock::now() + test::kPatience;
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

TEST(ADiscardedPrefixIsGoneWithThePieceThatIsBeingWritten) {
  const Folder folder;
  const Tokens shared = Sequence(0, 100);
  const Tokens one = Join(shared, Sequence(1000, 100));
  const Tokens other = Sequence(5000, 100);
  const auto store = Open(folder.path() / "prefixes");
  Write(*store, {.tokens = shared});
  Write(*store, {.tokens = other});
  const PrefixHead pending{.tokens = one, .begin = 100};
  store->Write(pending, std::make_shared<const StateBytes>(StateOf(pending, 5003)));
  store->Discard(kAll, Join(one, Sequence(2000, 10)));
  EXPECT(store->WaitForWrite(Soon()));
  EXPECT_EQ(store->Match(kAll, one, 0), 0U);
  EXPECT_EQ(store->Match(kAll, one, 100), 100U);
  EXPECT_EQ(store->Match(kAll, other, 0), 100U);
  EXPECT_EQ(folder.Files("prefixes").size(), 1U);
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

// What another engine is writing counts towards the limit.
TEST(UnfinishedFilesTakeSpace) {
  const Folder folder;
  const std::uint64_t file = PrefixFileBytes({.tokens = Sequence(0, 100)}, 5003);
  std::ofstream(folder.path() / "bb-1.prefix.1.unfinished") << std::string(file, 'x');
  const auto store = Open(folder.path(), 3 * file);
  for (const Token first : {0, 1000, 2000}) Write(*store, {.tokens = Sequence(first, 100)});
  EXPECT_EQ(folder.Files().size(), 3U);
  EXPECT_EQ(store->Match(kAll, Sequence(0, 100), 0), 0U);
  EXPECT_EQ(store->Match(kAll, Sequence(2000, 100), 0), 100U);
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

// A piece that several prompts need is read once. If all of them are cancelled, it is not read.
TEST(ThePieceThatManyWantIsReadOnce) {
  const Folder folder;
  const auto store = Open(folder.path());
  const Tokens one = Sequence(0, 200);
  const Tokens other = Sequence(5000, 200);
  const Tokens third = Sequence(9000, 200);
  for (const Tokens& tokens : {one, other, third}) Write(*store, {.tokens = tokens, .begin = 0});
  const auto next = [&] {
    std::optional<FetchedPiece> piece;
    for (const auto end = Soon(); !piece && std::chrono::steady_clock::now() < end;) {
      piece = store->TakeFetched();
    }
    return piece.value_or(FetchedPiece());
  };
  // The first is being read, or has been, and holds up the others until it is taken.
  EXPECT(store->Fetch(1, kAll, other, 0) > 0);
  EXPECT(store->Fetch(2, kAll, std::span(one).first(100), 0) > 0);
  EXPECT(store->Fetch(3, kAll, one, 0) > 0);
  EXPECT(store->Fetch(4, kAll, one, 0) > 0);
  store->Cancel(2);
  EXPECT(next().wanted_by == std::vector<GenerationId>{1});
  const FetchedPiece piece = next();
  EXPECT(piece.wanted_by == std::vector<GenerationId>({3, 4}));
  EXPECT_EQ(piece.end, 200U);
  EXPECT(piece.last && piece.head.tokens == one);

  EXPECT(store->Fetch(1, kAll, other, 0) > 0);
  EXPECT(store->Fetch(2, kAll, one, 0) > 0);
  EXPECT(store->Fetch(3, kAll, one, 0) > 0);
  store->Cancel(2);
  store->Cancel(3);
  EXPECT(store->Fetch(4, kAll, third, 0) > 0);
  EXPECT(next().wanted_by == std::vector<GenerationId>{1});
  EXPECT(next().wanted_by == std::vector<GenerationId>{4});
}

// As a long conversation has that was saved turn by turn.
TEST(AChainOfHundredsOfPiecesIsFound) {
  const Folder folder;
  const auto store = Open(folder.path());
  const Tokens all = Sequence(0, std::size_t{64} * 300);
  for (std::uint32_t begin = 0; begin < all.size(); begin += 64) {
    Write(*store, {.tokens = {all.begin(), all.begin() + begin + 64}, .begin = begin}, 8);
  }
  EXPECT_EQ(store->Match(kAll, all, 0), all.size());
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

TEST(WhereverMemoryRunsOutAFetchEndsAndAWriteEnds) {
  const Tokens tokens = Sequence(0, 200);
  const PrefixHead first{.tokens = Sequence(0, 100), .begin = 0};
  int reads = 0;
  for (bool has_failed = true; has_failed; ++reads) {
    const Folder folder;
    const auto store = Open(folder.path());
    Write(*store, first);
    Write(*store, {.tokens = tokens, .begin = 100});
    {
      const test::FailingMemory failing(reads);
      for (const FetchedPiece& piece : Fetch(*store, tokens)) {
        EXPECT(piece.state.empty() || piece.state == StateOf(piece.head));
      }
      has_failed = failing.has_failed();
    }
    EXPECT_EQ(Fetch(*store, tokens).size(), 2U);
  }
  int writes = 0;
  for (bool has_failed = true; has_failed; ++writes) {
    const Folder folder;
    const auto store = Open(folder.path());
    const test::FailingMemory failing(writes);
    Write(*store, first);
    has_failed = failing.has_failed();
  }
  EXPECT(reads > 5 && writes > 5);
}

#ifdef __GLIBC__
// Address space for one stack, not for two.
TEST(WithoutAThreadThereIsNoStore) {
  if (test::kSanitized) return;  // a sanitizer's memory takes most of the address space
  constexpr std::size_t kStackBytes = 256U << 20U;
  const Folder folder;
  pthread_attr_t before;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  pthread_attr_t large = before;
  REQUIRE(pthread_attr_setstacksize(&large, kStackBytes) == 0);
  REQUIRE(pthread_setattr_default_np(&large) == 0);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
  std::size_t pages = 0;
  REQUIRE(std::ifstream("/proc/self/statm") >> pages);
  const rlimit low{
      .rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + kStackBytes * 3 / 2,
      .rlim_max = limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  EXPECT(Open(folder.path()) == nullptr);
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  EXPECT(pthread_setattr_default_np(&before) == 0);
  pthread_attr_destroy(&before);
  EXPECT(Open(folder.path()) != nullptr);
}
#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
