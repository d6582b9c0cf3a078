// The decoder's contract with each kind of memory: sequences, cells, states, a cache that grows.
#include "engine/llama/llama_decoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/prefill_lane.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

const std::atomic<bool> kNever = false;

std::unique_ptr<Decoder> NewDecoder(const LlamaModel& model,
                                    DecoderOptions options = {
                                        .context_length = 512, .threads = 1, .max_sequences = 4}) {
  return std::move(NewLlamaDecoder(model, options).value());
}

// Loads the models one by one. `matches` chooses some of them; with a sanitizer every third of
// those, to save time.
template <typename Matches, typename Test>
void ForEachModel(Matches matches, Test test) {
  [[maybe_unused]] int matched = 0;
  int tested = 0;
  for (const std::string& path : test::ModelsOfEachMemory()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    if (!matches(*model)) continue;
    if (test::kSanitized && matched++ % 3 != 0) continue;
    const int before = test::Failures();
    test(*model);
    if (test::Failures() > before) std::printf("     with %s\n", path.c_str());
    ++tested;
  }
  EXPECT(tested > 0);
}
template <typename Test>
void ForEachModel(Test test) {
  ForEachModel([](const LlamaModel&) { return true; }, test);
}

std::vector<Token> Tokens(std::size_t count, int kind = 0) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<Token>(100 + (i * 37 + static_cast<std::size_t>(kind) * 11) % 900);
  }
  return tokens;
}

std::vector<Row> RowsOf(SequenceId sequence, std::span<const Token> tokens, std::int32_t position) {
  std::vector<Row> rows;
  for (const Token token : tokens) {
    rows.push_back({.token = token, .position = position++, .sequence = sequence});
  }
  if (!rows.empty()) rows.back().wants_logits = true;
  return rows;
}

std::vector<float> LogitsOf(Decoder& decoder, std::size_t row) {
  const float* logits = decoder.Logits(row);
  return {logits, logits + decoder.vocabulary()};
}

// Computes the tokens behind those of the sequence. Returns the logits of the last.
std::vector<float> Compute(Decoder& decoder, SequenceId sequence, std::span<const Token> tokens) {
  const std::vector<Row> rows = RowsOf(sequence, tokens, decoder.NextPosition(sequence));
  const DecodeOutcome outcome = decoder.Decode(rows, kNever);
  EXPECT(outcome == DecodeOutcome::kDone);
  return outcome == DecodeOutcome::kDone ? LogitsOf(decoder, rows.size() - 1)
                                         : std::vector<float>();
}

// Whether they are of the same text: the order of cells changes the rounding, another text more.
bool AreNear(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += std::abs(static_cast<double>(a[i]) - b[i]);
    magnitude += std::abs(static_cast<double>(b[i]));
  }
  return !a.empty() && a.size() == b.size() && difference < 0.02 * magnitude;
}

// ---- sizes --------------------------------------------------------------------------------------

TEST(ItTellsItsSizes) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder =
        NewDecoder(model, {.context_length = 1024, .cells = 512, .threads = 3, .max_sequences = 4});
    EXPECT_EQ(decoder->can_share(), CanShareCells(model));
    EXPECT(decoder->cells_total() >= 512 && decoder->max_cells() >= 1024);
    EXPECT_EQ(decoder->max_sequences(), 4U);
    EXPECT_EQ(decoder->sequence_ids(), decoder->can_share() ? kSequenceIds - 1 : 4U);
    EXPECT_EQ(decoder->max_outputs(), MaxOutputsOf(4));
    EXPECT_EQ(decoder->max_rows(), 512U);
    EXPECT_EQ(decoder->max_threads(), 3);
    EXPECT_EQ(decoder->vocabulary(),
              static_cast<std::uint32_t>(llama_vocab_n_tokens(model.vocab())));
    EXPECT_EQ(decoder->idle_cells(), 64U);
    EXPECT(decoder->max_state_bytes() > 0);
    if (!decoder->can_share()) {
      EXPECT_EQ(decoder->lane_cells(), 0U);
    }
  });
}

TEST(TokensHaveTheirPiecesAndSomeEndTheText) {
  const auto model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const auto decoder = NewDecoder(*model);
  const Token end = model->Tokenize("<|im_end|>", false, true).value()[0];
  EXPECT(decoder->IsEndOfGeneration(end) && !decoder->IsEndOfGeneration(100));
  EXPECT_EQ(decoder->Piece(end), "");
  EXPECT_EQ(decoder->Piece(100), model->Piece(100, false));
}

TEST(AModelWithoutACacheHasNoDecoder) {
  const auto model = test::LoadTinyModel(test::ModelPath("tiny-bert"));
  REQUIRE(model != nullptr);
  const Status status = NewLlamaDecoder(*model, {.context_length = 512}).status();
  EXPECT_EQ(status.code(), StatusCode::kModelInvalid);
  EXPECT(status.message().find("cache") != std::string::npos);
}

// ---- sequences ----------------------------------------------------------------------------------

TEST(SequencesInABatchDoNotSeeEachOther) {
  ForEachModel([](const LlamaModel& model) {
    const auto alone = NewDecoder(model);
    const auto decoder = NewDecoder(model);
    const std::vector<Token> first = Tokens(20);
    const std::vector<Token> second = Tokens(30, 1);
    std::vector<Row> rows = RowsOf(2, first, 0);
    for (const Row& row : RowsOf(0, second, 0)) rows.push_back(row);
    REQUIRE(decoder->Decode(rows, kNever) == DecodeOutcome::kDone);
    EXPECT(decoder->NextPosition(2) == 20 && decoder->NextPosition(0) == 30);
    EXPECT_EQ(decoder->NextPosition(1), 0);
    const std::vector<float> expected = Compute(*alone, 0, first);
    EXPECT(AreNear(LogitsOf(*decoder, 19), expected));
    EXPECT(AreNear(LogitsOf(*decoder, 49), Compute(*alone, 1, second)));
    EXPECT(!AreNear(LogitsOf(*decoder, 49), expected));
  });
}

TEST(ASequenceThatIsRemovedIsEmptyAndTheOthersStay) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    const std::vector<float> expected = Compute(*decoder, 3, Tokens(20));
    (void)Compute(*decoder, 1, Tokens(20, 1));
    (void)Compute(*decoder, 2, Tokens(25, 2));
    decoder->RemoveSequence(1);
    decoder->RemoveSequence(3);
    EXPECT(decoder->NextPosition(1) == 0 && decoder->NextPosition(3) == 0);
    EXPECT_EQ(decoder->NextPosition(2), 25);
    EXPECT(AreNear(Compute(*decoder, 1, Tokens(20)), expected));
    decoder->Clear();
    for (const SequenceId id : {0, 1, 2, 3}) EXPECT_EQ(decoder->NextPosition(id), 0);
    EXPECT(AreNear(Compute(*decoder, 0, Tokens(20)), expected));
  });
}

TEST(TheNumberOfThreadsChangesNothing) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder =
        NewDecoder(model, {.context_length = 512, .threads = 2, .max_sequences = 4});
    const std::vector<float> expected = Compute(*decoder, 0, Tokens(20));
    decoder->SetThreads(1);
    EXPECT(AreNear(Compute(*decoder, 1, Tokens(20)), expected));
    decoder->SetThreads(2);
    EXPECT(AreNear(Compute(*decoder, 2, Tokens(20)), expected));
  });
}

TEST(WithoutFreeCellsNothingIsComputed) {
  ForEachModel([](const LlamaModel& model) { return !model.is_recurrent(); },
               [](const LlamaModel& model) {
                 const auto decoder =
                     NewDecoder(model, {.context_length = 256, .max_sequences = 4});
                 const std::uint32_t cells = decoder->cells_total();
                 (void)Compute(*decoder, 0, Tokens(cells - 20));
                 const std::vector<Row> rows = RowsOf(1, Tokens(30, 1), 0);
                 EXPECT(decoder->Decode(rows, kNever) == DecodeOutcome::kNoCells);
                 EXPECT_EQ(decoder->NextPosition(0), static_cast<std::int32_t>(cells - 20));
                 EXPECT_EQ(decoder->NextPosition(1), 0);
                 (void)Compute(*decoder, 1, Tokens(20, 1));
                 decoder->RemoveSequence(0);
                 EXPECT(!Compute(*decoder, 1, Tokens(30, 2)).empty());
               });
}

TEST(AnAbortedBatchCanBeComputedLater) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    const std::vector<float> expected = Compute(*decoder, 0, Tokens(50));
    const std::atomic<bool> abort = true;
    EXPECT(decoder->Decode(RowsOf(1, Tokens(50), 0), abort) == DecodeOutcome::kAborted);
    decoder->RemoveSequence(1);
    EXPECT_EQ(decoder->NextPosition(0), 50);
    EXPECT(AreNear(Compute(*decoder, 1, Tokens(50)), expected));
  });
}

TEST(AStepThatTakesTooLongIsAborted) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    const std::vector<float> expected = Compute(*decoder, 0, Tokens(50));
    decoder->SetStepLimit(1e-6);
    EXPECT(decoder->Decode(RowsOf(1, Tokens(50), 0), kNever) == DecodeOutcome::kAborted);
    decoder->RemoveSequence(1);
    decoder->SetStepLimit(0);
    EXPECT(AreNear(Compute(*decoder, 1, Tokens(50)), expected));
  });
}

// ---- cells --------------------------------------------------------------------------------------

TEST(SharedCellsAreThoseOfBoth) {
  ForEachModel(CanShareCells, [](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    const std::vector<Token> tokens = Tokens(40);
    (void)Compute(*decoder, 0, tokens);
    const std::vector<float> expected = Compute(*decoder, 0, Tokens(1, 5));
    decoder->ShareCells(0, 7, 0, 25);
    EXPECT_EQ(decoder->NextPosition(7), 25);
    decoder->ShareCells(0, 7, 25, 40);
    EXPECT_EQ(decoder->NextPosition(7), 40);
    EXPECT(AreNear(Compute(*decoder, 7, Tokens(1, 5)), expected));
    decoder->RemoveSequence(0);
    EXPECT_EQ(decoder->NextPosition(7), 41);
    // The end of a sequence, and then another one.
    decoder->RemoveCells(7, 40, 41);
    EXPECT_EQ(decoder->NextPosition(7), 40);
    EXPECT(AreNear(Compute(*decoder, 7, Tokens(1, 5)), expected));
    decoder->RemoveCells(7, 10, 41);
    EXPECT_EQ(decoder->NextPosition(7), 10);
    (void)Compute(*decoder, 7, std::span(tokens).subspan(10));
    EXPECT(AreNear(Compute(*decoder, 7, Tokens(1, 5)), expected));
  });
}

TEST(CellsBecomeFreeWithTheLastOfTheirSequences) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const auto decoder = NewDecoder(*model, {.context_length = 256, .max_sequences = 4});
  const std::uint32_t cells = decoder->cells_total();
  (void)Compute(*decoder, 0, Tokens(cells));
  decoder->ShareCells(0, 1, 0, cells);
  const auto has_room = [&] {
    const bool has = decoder->Decode(RowsOf(2, Tokens(1), 0), kNever) == DecodeOutcome::kDone;
    decoder->RemoveSequence(2);
    return has;
  };
  EXPECT(!has_room());
  decoder->RemoveSequence(0);
  EXPECT(!has_room());
  decoder->RemoveCells(1, cells - 1, cells);
  EXPECT(has_room());
}

// ---- states -------------------------------------------------------------------------------------

TEST(AStateIsContinuedInAnotherDecoder) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    const auto other = NewDecoder(model);
    const std::vector<Token> tokens = Tokens(60);
    (void)Compute(*decoder, 1, tokens);
    (void)Compute(*decoder, 2, Tokens(30, 3));
    const StateBytes state = decoder->SaveState(1, 0, 60);
    EXPECT(!state.empty());
    EXPECT_EQ(state.size(), decoder->SizeOfState(1, 0, 60));
    // Saving changes nothing.
    EXPECT(decoder->NextPosition(1) == 60 && decoder->NextPosition(2) == 30);
    const std::vector<float> expected = Compute(*decoder, 1, Tokens(1, 5));
    (void)Compute(*other, 0, Tokens(10, 4));
    REQUIRE(other->LoadState(3, state, 0, 60));
    EXPECT(other->NextPosition(3) == 60 && other->NextPosition(0) == 10);
    EXPECT(AreNear(Compute(*other, 3, Tokens(1, 5)), expected));
    // Twice, and in the decoder that saved it.
    REQUIRE(other->LoadState(2, state, 0, 60) && decoder->LoadState(0, state, 0, 60));
    EXPECT(AreNear(Compute(*other, 2, Tokens(1, 5)), expected));
    EXPECT(AreNear(Compute(*decoder, 0, Tokens(1, 5)), expected));
  });
}

TEST(WhatIsSharedIsSavedAndLoadedInPieces) {
  ForEachModel(CanShareCells, [](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    (void)Compute(*decoder, 1, Tokens(60));
    const StateBytes first = decoder->SaveState(1, 0, 20);
    const StateBytes second = decoder->SaveState(1, 20, 60);
    EXPECT(first.size() < second.size());
    const std::vector<float> expected = Compute(*decoder, 1, Tokens(1, 5));
    REQUIRE(decoder->LoadState(2, first, 0, 20));
    EXPECT_EQ(decoder->NextPosition(2), 20);
    REQUIRE(decoder->LoadState(2, second, 20, 60));
    EXPECT(AreNear(Compute(*decoder, 2, Tokens(1, 5)), expected));
    // A part of what a state holds.
    REQUIRE(decoder->LoadState(3, first, 0, 15));
    EXPECT_EQ(decoder->NextPosition(3), 15);
  });
}

TEST(AStateThatIsTooShortOrDamagedIsNotLoaded) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder = NewDecoder(model);
    (void)Compute(*decoder, 1, Tokens(40));
    const StateBytes state = decoder->SaveState(1, 0, 40);
    REQUIRE(!state.empty());
    const auto refuses = [&](std::span<const std::uint8_t> bytes, std::uint32_t end) {
      const bool loaded = decoder->LoadState(2, bytes, 0, end);
      EXPECT_EQ(decoder->NextPosition(2), loaded ? static_cast<std::int32_t>(end) : 0);
      decoder->RemoveSequence(2);
      return !loaded;
    };
    EXPECT(refuses(state, 41));
    EXPECT(refuses(std::span(state).first(state.size() / 2), 40));
    EXPECT(refuses(std::span(state).first(8), 40));
    EXPECT(refuses({}, 40));
    EXPECT(!refuses(state, 40));
    EXPECT_EQ(decoder->NextPosition(1), 40);
  });
}

// ---- growth -------------------------------------------------------------------------------------

TEST(ACacheThatGrowsIsEmptyAndKeepsItsSettings) {
  ForEachModel([](const LlamaModel& model) {
    const auto decoder =
        NewDecoder(model, {.context_length = 4096, .cells = 512, .threads = 2, .max_sequences = 4});
    const std::vector<float> expected = Compute(*decoder, 1, Tokens(20));
    decoder->SetThreads(1);
    decoder->RemoveSequence(1);
    REQUIRE(decoder->Grow(2048));
    EXPECT(decoder->cells_total() >= 2048 && decoder->max_cells() >= 4096);
    EXPECT_EQ(decoder->max_threads(), 2);
    EXPECT_EQ(decoder->NextPosition(1), 0);
    EXPECT(AreNear(Compute(*decoder, 1, Tokens(20)), expected));
    // More than the old cache had.
    for (int part = 0; part < 3; ++part) (void)Compute(*decoder, 2, Tokens(400, part));
    EXPECT_EQ(decoder->NextPosition(2), 1200);
    // An abort still reaches it.
    const std::atomic<bool> abort = true;
    EXPECT(decoder->Decode(RowsOf(3, Tokens(50), 0), abort) == DecodeOutcome::kAborted);
  });
}

TEST(TheLaneGrowsWithTheCache) {
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const auto decoder = NewDecoder(*model, {.context_length = 4096, .cells = 2048});
  EXPECT_EQ(decoder->lane_cells(), 2048U);
  PrefillLane* const lane = decoder->lane(512);
  REQUIRE(lane != nullptr);
  EXPECT_EQ(lane->cells(), 512U);
  REQUIRE(decoder->Grow(4096));
  EXPECT_EQ(decoder->lane_cells(), 4096U);
  PrefillLane* const larger = decoder->lane(512);
  REQUIRE(larger != nullptr);
  EXPECT_EQ(larger->cells(), 1024U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
