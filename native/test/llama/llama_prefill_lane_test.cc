// The prefill lane of the real decoder: its results equal those of a plain llama.cpp loop, even
// with decoding in between, and can be continued in the decoder's cache.
#include <atomic>
#include <cmath>

#include "engine/llama/llama_decoder.h"
#include "engine/model/prefill_lane.h"
#include "failing_memory.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using Progress = PrefillLane::Progress;

constexpr std::uint32_t kCells = 4096;
const std::atomic<bool> kNever = false;

std::vector<Token> Prompt(const LlamaModel& model, std::size_t count) {
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(model.vocab()));
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<Token>((i * 7919 + 3) % vocabulary);
  return tokens;
}

std::unique_ptr<Decoder> NewDecoder(const LlamaModel& model) {
  return std::move(
      NewLlamaDecoder(model, {.context_length = kCells, .threads = 2, .max_sequences = 4}).value());
}

std::vector<float> Copy(const float* logits, const Decoder& decoder) {
  return {logits, logits + decoder.vocabulary()};
}

// Computes the tokens from `begin` on in one batch of the decoder; returns the last logits.
std::vector<float> Decode(Decoder& decoder, SequenceId sequence, std::span<const Token> tokens,
                          std::uint32_t begin = 0) {
  std::vector<Row> rows;
  for (std::size_t i = begin; i < tokens.size(); ++i) {
    rows.push_back({.token = tokens[i],
                    .position = static_cast<std::int32_t>(i),
                    .sequence = sequence,
                    .wants_logits = i + 1 == tokens.size()});
  }
  EXPECT(decoder.Decode(rows, kNever) == DecodeOutcome::kDone);
  return Copy(decoder.Logits(rows.size() - 1), decoder);
}

// Computes the prompt as the plain loop does, in batches of 512; returns the last logits.
std::vector<float> Plain(Decoder& decoder, const std::vector<Token>& prompt) {
  std::vector<float> logits;
  for (std::size_t at = 0; at < prompt.size(); at += 512) {
    const std::size_t end = std::min(prompt.size(), at + 512);
    logits = Decode(decoder, 0, std::span(prompt).first(end), static_cast<std::uint32_t>(at));
  }
  return logits;
}
std::vector<float> Plain(const LlamaModel& model, const std::vector<Token>& prompt) {
  return Plain(*NewDecoder(model), prompt);
}

// Computes one batch of the lane; calls `between` after each unfinished Advance.
template <typename Between>
void Compute(PrefillLane& lane, std::span<const Token> tokens, Between between,
             std::uint32_t padding = 0) {
  lane.Begin(tokens, padding);
  Progress progress = Progress::kMore;
  while ((progress = lane.Advance(PrefillLane::Stretch::kPartOfLayer, kNever)) == Progress::kMore)
    between();
  EXPECT(progress == Progress::kDone);
}

TEST(ItsThreadsAreItsOwnWhileNobodyIsInTheWay) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const auto lane_threads = [&](int threads, int prompt_threads, int granted) {
    const std::unique_ptr<Decoder> decoder =
        std::move(NewLlamaDecoder(*model, {.context_length = kCells,
                                           .threads = threads,
                                           .prompt_threads = prompt_threads,
                                           .max_sequences = 4})
                      .value());
    decoder->SetThreads(granted);
    const int before = decoder->lane(512)->threads();
    decoder->SetThreads(1);
    decoder->SetThreads(granted);
    EXPECT_EQ(decoder->lane(512)->threads(), before);
    return before;
  };
  EXPECT_EQ(lane_threads(2, 0, 2), 2);
  EXPECT_EQ(lane_threads(1, 2, 1), 2);
  EXPECT_EQ(lane_threads(2, 1, 2), 1);
  EXPECT_EQ(lane_threads(2, 4, 2), 4);
  EXPECT_EQ(lane_threads(2, 4, 1), 1);
}

// Tiny models except gemma, whose sliding window cannot share cells.
std::vector<std::string> ModelsWithLane() {
  std::vector<std::string> paths = test::TinyModels();
  paths.pop_back();
  return paths;
}

TEST(WhatTheLaneComputesIsWhatAPlainLoopComputes) {
  for (const std::string& path : ModelsWithLane()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
    PrefillLane* lane = decoder->lane(kCells / 4);
    REQUIRE(lane != nullptr);
    EXPECT_EQ(decoder->lane_cells(), kCells);

    // Another sequence decodes meanwhile; later it is compared with the same sequence alone.
    const std::vector<Token> prompt = Prompt(*model, 700);
    const std::vector<Token> other = Prompt(*model, 400);
    std::vector<std::vector<float>> beside;
    for (std::uint32_t at = 0; at < 700; at += 256) {
      const std::uint32_t end = std::min(700U, at + 256);
      Compute(*lane, std::span(prompt).subspan(at, end - at), [&] {
        const auto next = static_cast<std::uint32_t>(beside.size());
        beside.push_back(Decode(*decoder, 1, std::span(other).first(next + 1), next));
      });
    }
    EXPECT(beside.size() > 3);
    EXPECT(Copy(lane->Logits(), *decoder) == Plain(*model, prompt));
    const std::unique_ptr<Decoder> alone = NewDecoder(*model);
    for (std::uint32_t i = 0; i < beside.size(); ++i) {
      EXPECT(beside[i] == Decode(*alone, 1, std::span(other).first(i + 1), i));
    }

    // The state, copied to the decoder in two pieces, can be continued there.
    REQUIRE(decoder->LoadState(2, lane->SaveState(0, 300), 0, 300));
    REQUIRE(decoder->LoadState(2, lane->SaveState(300, 700), 300, 700));
    EXPECT_EQ(decoder->NextPosition(2), 700);
    std::vector<Token> longer = prompt;
    longer.push_back(5);
    (void)Plain(*alone, prompt);
    EXPECT(Decode(*decoder, 2, longer, 700) == Decode(*alone, 0, longer, 700));

    // The state can be copied back into the lane.
    lane->Clear();
    REQUIRE(lane->LoadState(decoder->SaveState(2, 0, 512), 0, 512));
    REQUIRE(lane->LoadState(decoder->SaveState(2, 512, 700), 512, 700));
    const std::vector<Token> end = Prompt(*model, 192);
    Compute(*lane, end, [] {});
    // The batches differ from the plain loop's, and so does the rounding.
    std::vector<Token> whole = prompt;
    whole.insert(whole.end(), end.begin(), end.end());
    const std::vector<float> expected = Plain(*model, whole);
    const float* logits = lane->Logits();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT(std::abs(logits[i] - expected[i]) < 1);
  }
}

TEST(PaddingLeavesNothing) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
  PrefillLane& lane = *decoder->lane(256);
  const std::vector<Token> prompt = Prompt(*model, 200);
  const std::vector<float> expected = Plain(*model, prompt);
  Compute(
      lane, std::span(prompt).first(77), [] {}, 3);
  Compute(
      lane, std::span(prompt).subspan(77), [] {}, 1);
  // The groups of rows differ from the plain loop's, and so does the rounding.
  const float* logits = lane.Logits();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT(std::abs(logits[i] - expected[i]) < 1);
  REQUIRE(decoder->LoadState(0, lane.SaveState(0, 200), 0, 200));
  EXPECT_EQ(decoder->NextPosition(0), 200);
}

TEST(ABatchCanBeGivenUpAnywhere) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::vector<Token> prompt = Prompt(*model, 256);
  const std::vector<float> expected = Plain(*model, prompt);
  for (int advances = 0; advances < 4; ++advances) {
    const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
    PrefillLane& lane = *decoder->lane(256);
    for (const bool ends_with_it : {false, true}) {
      lane.Begin(Prompt(*model, 200), 0);
      for (int i = 0; i < advances; ++i)
        EXPECT(lane.Advance(PrefillLane::Stretch::kPartOfLayer, kNever) == Progress::kMore);
      if (ends_with_it) break;
      lane.Clear();
      Compute(lane, prompt, [] {});
      EXPECT(Copy(lane.Logits(), *decoder) == expected);
      lane.Clear();
    }
  }
}

TEST(WithoutMemoryForItsRowsABatchFailsAndTheNextOneIsComputed) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::vector<Token> prompt = Prompt(*model, 100);
  const std::vector<float> expected = Plain(*model, prompt);
  const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
  PrefillLane& lane = *decoder->lane(256);
  {
    const test::FailingMemory failing(2);
    lane.Begin(prompt, 0);
    EXPECT(lane.Advance(PrefillLane::Stretch::kPartOfLayer, kNever) == Progress::kFailed);
    EXPECT(failing.has_failed());
  }
  lane.Clear();
  Compute(lane, prompt, [] {});
  EXPECT(Copy(lane.Logits(), *decoder) == expected);
}

TEST(ALongerPromptGetsALargerLane) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
  for (const std::uint32_t size : {256U, kCells / 4 + 256, kCells, 512U}) {
    PrefillLane* lane = decoder->lane(size);
    REQUIRE(lane != nullptr);
    lane->Clear();
    const std::vector<Token> prompt = Prompt(*model, size);
    for (std::uint32_t at = 0; at < size; at += 256) {
      Compute(*lane, std::span(prompt).subspan(at, std::min(256U, size - at)), [] {});
    }
    EXPECT(Copy(lane->Logits(), *decoder) == Plain(*model, prompt));
  }
}

TEST(ALaneIsKeptWhileItIsLargeEnoughAndTakesTheMemoryOfCopies) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
  EXPECT_EQ(decoder->lane_cells(), kCells);
  EXPECT_EQ(decoder->max_copied(0), kCells);
  EXPECT_EQ(decoder->max_copied(kCells), kCells / 4);
  PrefillLane* const lane = decoder->lane(kCells / 2);
  REQUIRE(lane != nullptr);
  EXPECT_EQ(lane->cells(), kCells / 2);
  for (const std::uint32_t tokens : {512U, kCells / 4, kCells / 2, 200U}) {
    EXPECT(decoder->lane(tokens) == lane);
    EXPECT_EQ(lane->cells(), kCells / 2);
    EXPECT_EQ(decoder->max_copied(tokens), kCells * 3 / 4);
  }
  decoder->ShrinkLane();
  EXPECT_EQ(decoder->max_copied(0), kCells);
  EXPECT_EQ(decoder->lane(200)->cells(), kCells / 4);
}

TEST(AnAbortEndsABatch) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const std::unique_ptr<Decoder> decoder = NewDecoder(*model);
  PrefillLane& lane = *decoder->lane(256);
  const std::atomic<bool> abort = true;
  lane.Begin(Prompt(*model, 256), 0);
  EXPECT(lane.Advance(PrefillLane::Stretch::kPartOfLayer, abort) == Progress::kAborted);
  lane.Clear();
  const std::vector<Token> prompt = Prompt(*model, 100);
  Compute(lane, prompt, [] {});
  EXPECT(Copy(lane.Logits(), *decoder) == Plain(*model, prompt));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
