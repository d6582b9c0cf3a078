// The cache of compiled grammars: hits, eviction, and the limit of the memory in use.
#include "engine/grammar/grammar_cache.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using Compiled = std::shared_ptr<CompiledGrammar>;

constexpr int kEntries = GrammarCache::kEntries;

std::string Numbered(int i) { return "root ::= \"text " + std::to_string(i) + "\""; }

Compiled Get(GrammarCache& cache, const std::string& gbnf) {
  const Result<Compiled> grammar = cache.Get(gbnf);
  if (grammar.ok()) return grammar.value();
  test::Fail(__FILE__, __LINE__, gbnf + ": " + grammar.status().message());
  return nullptr;
}

bool Accepts(const Compiled& grammar, const std::string& text) {
  GrammarAutomaton& automaton = *grammar->automaton;
  GrammarAutomaton::State state = automaton.start();
  for (const char byte : text) state = automaton.Next(state, static_cast<std::uint8_t>(byte));
  return automaton.IsComplete(state);
}

TEST(TheSameTextIsTheSameGrammarAndAnotherTextAnother) {
  GrammarCache cache;
  const Compiled first = Get(cache, Numbered(1));
  const Compiled second = Get(cache, Numbered(2));
  EXPECT(first != second);
  EXPECT(Get(cache, Numbered(1)) == first);
  EXPECT(Get(cache, Numbered(2)) == second);
  EXPECT(Accepts(first, "text 1") && !Accepts(first, "text 2"));
  EXPECT(Accepts(second, "text 2") && !Accepts(second, "text 1"));
  GrammarCache other;
  EXPECT(Get(other, Numbered(1)) != first);
}

TEST(TheLeastRecentlyUsedIsForgotten) {
  GrammarCache cache;
  std::vector<std::weak_ptr<CompiledGrammar>> cached;
  for (int i = 0; i < kEntries; ++i) cached.emplace_back(Get(cache, Numbered(i)));
  for (const auto& grammar : cached) EXPECT(!grammar.expired());
  (void)Get(cache, Numbered(0));
  (void)Get(cache, Numbered(kEntries));
  for (int i = 0; i < kEntries; ++i) EXPECT_EQ(cached[i].expired(), i == 1);
}

TEST(AGrammarInUseOutlivesItsEntryAndTheCache) {
  std::optional<GrammarCache> cache(std::in_place);
  const Compiled used = Get(*cache, Numbered(0));
  for (int i = 1; i <= kEntries; ++i) (void)Get(*cache, Numbered(i));
  EXPECT(Get(*cache, Numbered(0)) != used);
  cache.reset();
  EXPECT(Accepts(used, "text 0"));
}

TEST(AFullGrammarIsReplaced) {
  GrammarCache cache;
  const Compiled full = Get(cache, Numbered(0));
  const Compiled other = Get(cache, Numbered(1));
  full->full = true;
  const Compiled fresh = Get(cache, Numbered(0));
  EXPECT(fresh != full);
  EXPECT(Get(cache, Numbered(0)) == fresh);
  EXPECT(Get(cache, Numbered(1)) == other);
  EXPECT_EQ(full.use_count(), 1);  // the cache has only one of this text
}

TEST(AWrongGrammarIsAnErrorEachTimeAndTakesNoPlace) {
  GrammarCache cache;
  const Compiled first = Get(cache, Numbered(0));
  for (int i = 0; i < 2 * kEntries; ++i) {
    const Result<Compiled> wrong = cache.Get("root ::= nothing" + std::to_string(i % 2));
    REQUIRE(!wrong.ok());
    EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(wrong.status().param(), "grammar");
  }
  EXPECT(Get(cache, Numbered(0)) == first);
}

TEST(WhileTooMuchIsInUseOnlyWhatIsKnownIsReturned) {
  GrammarCache cache;
  const auto large = [](int i) { return "root ::= ([a-z] \"" + std::to_string(i) + "\"){50000}"; };
  std::vector<Compiled> used;
  std::size_t bytes = 0;
  while (bytes <= GrammarCache::kMaxAliveBytes) {
    used.push_back(Get(cache, large(static_cast<int>(used.size()))));
    REQUIRE(used.back() != nullptr);
    bytes += used.back()->automaton->grammar_bytes();
  }
  REQUIRE(used.size() > kEntries);  // else the cache alone might hold too much
  const Result<Compiled> more = cache.Get(Numbered(0));
  REQUIRE(!more.ok());
  EXPECT_EQ(more.status().code(), StatusCode::kBusy);
  EXPECT(Get(cache, large(static_cast<int>(used.size()) - 1)) == used.back());
  used.clear();
  EXPECT(cache.Get(Numbered(0)).ok());
}

TEST(EachThreadGetsTheGrammarOfItsText) {
  constexpr int kThreads = 4;
  constexpr int kTexts = kEntries + 4;
  GrammarCache cache;
  std::vector<std::vector<Compiled>> found(kThreads, std::vector<Compiled>(kTexts));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&cache, &mine = found[thread], thread] {
      for (int i = 0; i < 2000; ++i) {
        const int number = i / (thread + 1) % kTexts;
        mine[number] = Get(cache, Numbered(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Not on the threads: one at a time may use a grammar.
  for (const std::vector<Compiled>& grammars : found) {
    for (int number = 0; number < kTexts; ++number) {
      const Compiled& grammar = grammars[number];
      EXPECT(grammar != nullptr && Accepts(grammar, "text " + std::to_string(number)));
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
