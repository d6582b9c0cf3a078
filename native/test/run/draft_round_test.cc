// Drafts in the steps of a loop over a fake model on a virtual clock: they never change a text, and
// save time where they are right.
#include "engine/run/draft_round.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "bench.h"
#include "loop_bench.h"
#include "test.h"

namespace svc {
namespace {

using test::FakeOptions;
using test::kFakeVocabulary;
using test::SubmissionOf;
using test::Want;

// Milliseconds of a step: quantized kernels compute rows in groups of four.
double Groups(std::uint32_t rows) {
  return 20 + 10 * std::ceil(rows / 4.0) + (rows % 4 == 3 ? 8 : 0);
}
double CheapGroups(std::uint32_t rows) {
  return 20 + std::ceil(rows / 4.0) + (rows % 4 == 3 ? 8 : 0);
}
double Lines(std::uint32_t rows) { return 20 + 10.0 * rows; }

// A loop over a fake model whose steps advance the clock by `cost_of(rows)` ms.
class Bench : public test::LoopBench {
 public:
  explicit Bench(FakeOptions options = {}, bool measured = true,
                 double (*cost_of)(std::uint32_t) = Groups)
      : cells_(options.cells) {
    auto fault = std::move(options.fault);
    options.fault = [this, fault, cost_of](std::span<const Row> rows,
                                           const std::atomic<bool>& abort) {
      Pass(cost_of(static_cast<std::uint32_t>(rows.size())));
      largest_step = std::max(largest_step, rows.size());
      return fault ? fault(rows, abort) : DecodeOutcome::kDone;
    };
    auto decoder = std::make_unique<test::FakeDecoder>(std::move(options), &record);
    CostModel cost;
    if (measured) cost = CostModel::Measure(*decoder, now(), 1e6);
    largest_step = 0;
    loop = std::make_unique<Loop>(std::move(decoder), LoopOptions{.cost = cost, .now = now()});
  }

  void ExpectAsAlone(const Want& want) {
    const test::Outcome alone = test::Alone(want, cells_);
    EXPECT_EQ(texts[want.id], alone.text);
    EXPECT_EQ(ends[want.id].reason, alone.reason);
    EXPECT_EQ(ends[want.id].usage.output_tokens, alone.output_tokens);
  }

  std::size_t largest_step = 0;

 private:
  const std::uint32_t cells_;
};

// Returns a request whose text has at least `tokens` tokens.
Want Long(GenerationId id, std::uint32_t period, std::uint32_t tokens) {
  Want want{.id = id, .prompt = {5, 6, 7}, .max_tokens = tokens, .seed = id, .period = period};
  while (test::Alone(want, 1U << 20U).output_tokens < tokens) ++want.seed;
  return want;
}

// Returns the time in ms to generate the texts with drafts, or (with reuse_prefix off) without.
double TimeOf(std::vector<Want> wants, bool draft) {
  Bench bench({.cells = 4096});
  for (Want& want : wants) {
    want.reuse_prefix = draft;
    bench.loop->Add(SubmissionOf(want));
  }
  const double ms = bench.RunToTheEnd();
  for (const Want& want : wants) bench.ExpectAsAlone(want);
  if (!draft) EXPECT_EQ(bench.loop->stats().drafted_tokens, 0U);
  return ms;
}

TEST(WhatRepeatsIsFasterAndWhatDoesNotIsNotSlower) {
  const double repeating = TimeOf({Long(1, 5, 400)}, false) / TimeOf({Long(1, 5, 400)}, true);
  const double fresh = TimeOf({Long(2, 0, 60)}, false) / TimeOf({Long(2, 0, 60)}, true);
  const std::vector<Want> both = {Long(1, 5, 200), Long(2, 7, 200), Long(3, 4, 200)};
  const double several = TimeOf(both, false) / TimeOf(both, true);
  std::printf("     %.2f times as fast where it repeats, %.2f where not, %.2f for three\n",
              repeating, fresh, several);
  EXPECT(repeating > 1.3);
  EXPECT(fresh > 0.97);
  EXPECT(several > 1.1);
}

TEST(ATextFullOfFalseFriendsCostsLittle) {
  // Every pair of tokens occurs often and is followed by random tokens.
  struct Chance final : Sampler {
    std::mt19937 random{7};
    Token Sample(const float*) override { return static_cast<Token>(3 + random() % 8); }
  };
  const auto time = [](bool draft) {
    Bench bench({.cells = 4096}, /*measured=*/true, Lines);
    Submission submission = SubmissionOf({.id = 1, .prompt = {5, 6}, .max_tokens = 1000});
    submission.reuse_prefix = draft;
    submission.sampler = std::make_unique<Chance>();
    bench.loop->Add(std::move(submission));
    return bench.RunToTheEnd();
  };
  const double ratio = time(false) / time(true);
  std::printf("     %.3f times as fast where drafts are wrong\n", ratio);
  EXPECT(ratio > 0.97);
}

TEST(CountersTellWhatWasDrafted) {
  Bench bench({.cells = 1024});
  const Want want = Long(1, 6, 300);
  bench.loop->Add(SubmissionOf(want));
  (void)bench.RunToTheEnd();
  const EngineStats stats = bench.loop->stats();
  EXPECT(stats.drafted_tokens > 100);
  EXPECT(stats.accepted_tokens > 100);
  EXPECT(stats.accepted_tokens <= stats.drafted_tokens);
  EXPECT_EQ(stats.generated_tokens, 300U);
  EXPECT(stats.steps + stats.accepted_tokens >= 300);
  EXPECT(stats.steps < 250);
  EXPECT(bench.largest_step <= kLeastOutputs);
}

// Random stop strings, lengths, cache sizes, missing cells, concurrency and cancels: each text
// equals the text of the generation alone, and no cell leaks.
TEST(NothingElseIsSaidWhateverHappens) {
  std::uint64_t drafted = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    std::mt19937 faults(seed + 1);
    FakeOptions options{.cells = 48 + static_cast<std::uint32_t>(random() % 300),
                        .max_rows = 8 + static_cast<std::uint32_t>(random() % 60),
                        .max_sequences = 1 + static_cast<std::uint32_t>(random() % 4)};
    options.can_share = random() % 6 != 0;
    const auto generations = static_cast<SequenceId>(options.max_sequences);
    options.fault = [&, generations](std::span<const Row> rows, const std::atomic<bool>&) {
      if (rows.size() < 2) return DecodeOutcome::kDone;
      if (faults() % 40 == 0) return DecodeOutcome::kAborted;
      // Padding rows do not count: a generation that runs alone must get its cells.
      const bool several = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
        return row.sequence < generations && row.sequence != rows.front().sequence;
      });
      const bool drafts = rows.front().wants_logits;
      return (several || drafts) && faults() % 30 == 0 ? DecodeOutcome::kNoCells
                                                       : DecodeOutcome::kDone;
    };
    const bool shares = options.can_share;
    Bench bench(options, random() % 3 != 0);
    std::map<GenerationId, Want> wants;
    std::set<GenerationId> cancelled;
    for (GenerationId id = 0; id < 8; ++id) {
      Want want = test::RandomWant(id, random, 30);
      want.period = 1 + random() % 7;
      if (random() % 2 == 0) want.max_tokens = 30 + random() % 200;
      wants.emplace(id, want);
      bench.loop->Add(SubmissionOf(want));
      for (std::uint32_t i = random() % 20; i > 0; --i) (void)bench.Step();
      if (random() % 4 == 0) {
        bench.loop->Cancel(id);
        cancelled.insert(id);
      }
    }
    (void)bench.RunToTheEnd();
    for (const auto& [id, want] : wants) {
      if (!cancelled.contains(id)) bench.ExpectAsAlone(want);
    }
    drafted += bench.loop->stats().drafted_tokens;
    if (!shares) EXPECT_EQ(bench.loop->stats().drafted_tokens, 0U);
  }
  EXPECT(drafted > 1000);
}

// Drafts use only cells that no generation needs.
TEST(NobodyMakesWayForADraft) {
  Bench bench({.cells = 64, .max_sequences = 2});
  const Want a = Long(1, 3, 26);
  const Want b = Long(2, 4, 26);
  for (const Want& want : {a, b}) bench.loop->Add(SubmissionOf(want));
  (void)bench.RunToTheEnd();
  for (const Want& want : {a, b}) bench.ExpectAsAlone(want);
  EXPECT(bench.loop->stats().drafted_tokens > 0);
  EXPECT_EQ(bench.loop->stats().preemptions, 0U);
}

// Draws from the distribution of the logits, with one random number per token.
class DieSampler final : public Sampler {
 public:
  DieSampler(std::uint32_t seed, std::vector<Token>* drawn) : random_(seed), drawn_(drawn) {}

  Token Sample(const float* logits) override {
    double sum = 0;
    for (std::size_t i = 3; i < kFakeVocabulary; ++i) sum += std::exp(logits[i]);
    double left = sum * (random_() / 4294967296.0);
    Token token = 3;
    while (token + 1 < static_cast<Token>(kFakeVocabulary) && left >= std::exp(logits[token])) {
      left -= std::exp(logits[token]);
      ++token;
    }
    drawn_->push_back(token);
    return token;
  }

 private:
  std::mt19937 random_;
  std::vector<Token>* const drawn_;
};

// Drafts use all rows that may want logits, and 19 rows cost more than 20: padding to 20 would
// exceed max_outputs, which FakeDecoder checks.
TEST(PaddingWantsNoMoreLogitsThanThereMayBe) {
  Bench bench({.cells = 8192, .max_sequences = 16, .sequence_ids = 64}, true, CheapGroups);
  for (GenerationId id = 1; id <= 12; ++id) bench.loop->Add(SubmissionOf(Long(id, 3, 200)));
  while (bench.loop->stats().drafted_tokens == 0) REQUIRE(bench.Step());
  bench.largest_step = 0;  // the step of the prompts was larger
  bench.RunToTheEnd();
  EXPECT(bench.loop->stats().accepted_tokens > 0);
  EXPECT_EQ(bench.largest_step, 19U);
}

// Compares the frequencies of token pairs in many texts, with and without drafts.
TEST(DrawsByChanceKeepTheirDistribution) {
  constexpr int kSides = 4;
  constexpr int kTexts = 400;
  constexpr std::uint32_t kTokens = 60;
  // A token's successor follows three times in four, so that drafts are often right.
  const double likely = 0.76;
  const double other = 0.08;
  const auto logits = [&](const std::vector<Token>& tokens, std::size_t, float* row) {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) row[i] = -INFINITY;
    for (int side = 0; side < kSides; ++side) {
      const bool next = side == (tokens.back() + 1) % kSides;
      row[4 + side] = static_cast<float>(std::log(next ? likely : other));
    }
  };
  std::vector<std::vector<Token>> texts[2];
  std::uint64_t accepted = 0;
  for (const int draft : {0, 1}) {
    for (int text = 0; text < kTexts; ++text) {
      Bench bench({.cells = 256, .logits = logits});
      std::vector<Token>& drawn = texts[draft].emplace_back();
      Submission submission = SubmissionOf({.id = 1, .prompt = {4, 5, 6}, .max_tokens = kTokens});
      submission.reuse_prefix = draft == 1;
      // Different seeds, so that distributions are compared, not texts.
      submission.sampler = std::make_unique<DieSampler>(1 + text + draft * kTexts, &drawn);
      bench.loop->Add(std::move(submission));
      (void)bench.RunToTheEnd();
      EXPECT_EQ(drawn.size(), kTokens);
      accepted += bench.loop->stats().accepted_tokens;
    }
  }
  EXPECT(accepted > kTexts * 5ULL);
  for (const int draft : {0, 1}) {
    double counts[kSides][kSides] = {};
    for (const std::vector<Token>& text : texts[draft]) {
      for (std::size_t i = 1; i < text.size(); ++i) ++counts[text[i - 1] - 4][text[i] - 4];
    }
    double chi_square = 0;
    for (int from = 0; from < kSides; ++from) {
      double all = 0;
      for (const double count : counts[from]) all += count;
      for (int to = 0; to < kSides; ++to) {
        const double expected = all * (to == (from + 1) % kSides ? likely : other);
        chi_square += std::pow(counts[from][to] - expected, 2) / expected;
      }
    }
    std::printf("     chi-square %.1f of 12 degrees of freedom %s drafts\n", chi_square,
                draft == 1 ? "with" : "without");
    EXPECT(chi_square < 32.9);  // exceeded by chance one time in a thousand
  }
}

// The same random numbers draw the same text, with and without drafts.
TEST(ASeedDrawsTheSameTextWithAndWithoutDrafts) {
  const auto logits = [](const std::vector<Token>& tokens, std::size_t, float* row) {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) row[i] = -INFINITY;
    for (Token side = 0; side < 6; ++side) {
      row[4 + side] = side == (tokens.back() * 5 + 1) % 6 ? 2.5F : 0;
    }
  };
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::vector<Token> drawn[2];
    for (const int draft : {0, 1}) {
      Bench bench({.cells = 512, .logits = logits});
      Submission submission = SubmissionOf({.id = 1, .prompt = {4, 5, 6}, .max_tokens = 200});
      submission.reuse_prefix = draft == 1;
      submission.sampler = std::make_unique<DieSampler>(seed, &drawn[draft]);
      bench.loop->Add(std::move(submission));
      (void)bench.RunToTheEnd();
      if (draft == 1) EXPECT(bench.loop->stats().accepted_tokens > 0);
    }
    EXPECT(drawn[0] == drawn[1]);
  }
}

// Takes the largest logit.
class GreedySampler final : public Sampler {
 public:
  Token Sample(const float* logits) override {
    return static_cast<Token>(std::max_element(logits, logits + kFakeVocabulary) - logits);
  }
  std::optional<float> Lead(const float* logits) override {
    const Token best = Sample(logits);
    float second = -INFINITY;
    for (Token token = 0; token < static_cast<Token>(kFakeVocabulary); ++token) {
      if (token != best) second = std::max(second, logits[token]);
    }
    return logits[best] - second;
  }
};

// Expects the same text of 300 tokens with drafts and without. Returns how many were accepted.
template <typename Drawing, typename Logits>
std::uint64_t ExpectSameTextWithDrafts(const Logits& logits) {
  std::string texts[2];
  std::uint64_t accepted = 0;
  for (const int draft : {0, 1}) {
    Bench bench({.cells = 1024, .logits = logits});
    Submission submission = SubmissionOf({.id = 1, .prompt = {4, 5, 6}, .max_tokens = 300});
    submission.reuse_prefix = draft == 1;
    submission.sampler = std::make_unique<Drawing>();
    bench.loop->Add(std::move(submission));
    (void)bench.RunToTheEnd();
    texts[draft] = bench.texts[1];
    accepted = bench.loop->stats().accepted_tokens;
  }
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[1].size(), 300U);
  return accepted;
}

// A model whose rows are rounded differently in a larger batch, which can flip ties, and one
// without such rounding.
TEST(TiesAreBrokenAsTheyAreAlone) {
  for (const float error : {0.0F, 0.02F}) {
    // Repeats five tokens; every third position is almost a tie.
    const auto logits = [error](const std::vector<Token>& tokens, std::size_t rows, float* row) {
      for (std::size_t i = 0; i < kFakeVocabulary; ++i) row[i] = 0;
      const auto at = static_cast<Token>(tokens.size() % 5);
      row[10 + at] = 5;
      if (tokens.size() % 3 == 0) row[20 + at] = 4.995F;
      if (rows > 1) row[20 + at] += error;
    };
    EXPECT(ExpectSameTextWithDrafts<GreedySampler>(logits) > 50);
  }
}

// Never draws one token, as a grammar that refuses it; where that is the best, the lead is unknown.
class RefusingSampler final : public Sampler {
 public:
  static constexpr Token kRefused = 9;

  Token Sample(const float* logits) override { return greedy_.Sample(Allowed(logits)); }
  std::optional<float> Lead(const float* logits) override {
    if (greedy_.Sample(logits) == kRefused) return std::nullopt;
    return greedy_.Lead(Allowed(logits));
  }

 private:
  const float* Allowed(const float* logits) {
    allowed_.assign(logits, logits + kFakeVocabulary);
    allowed_[kRefused] = -INFINITY;
    return allowed_.data();
  }

  GreedySampler greedy_;
  std::vector<float> allowed_;
};

// In the first half of the text a refused token is often the best, so that the leads of these rows
// are unknown: they say nothing about the rounding, which flips ties in the second half.
TEST(RowsWhoseLeadIsUnknownTeachNothing) {
  const auto logits = [](const std::vector<Token>& tokens, std::size_t rows, float* row) {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) row[i] = 0;
    const auto at = static_cast<Token>(tokens.size() % 5);
    row[10 + at] = 5;
    const bool is_first_half = tokens.size() < 150;
    if (is_first_half && tokens.size() % 3 == 0) row[RefusingSampler::kRefused] = 6;
    if (!is_first_half && tokens.size() % 3 == 0) row[20 + at] = 4.995F;
    if (rows > 1) row[20 + at] += 0.02F;
  };
  (void)ExpectSameTextWithDrafts<RefusingSampler>(logits);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
