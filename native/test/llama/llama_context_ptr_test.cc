// States of sequences in contexts of libllama: what they hold, where they are loaded, and what is
// refused without an exception.
#include "engine/llama/llama_context_ptr.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr std::uint32_t kSequences = 3;

ContextPtr NewContext(const LlamaModel& model, std::uint32_t cells = 256) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = cells;
  params.n_seq_max = kSequences;
  params.n_threads = params.n_threads_batch = 1;
  params.kv_unified = true;
  params.swa_full = true;
  return ContextPtr(llama_init_from_model(model.get(), params));
}

std::vector<Token> Tokens(int count, int first) {
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(100 + (first + i * 37) % 900);
  return tokens;
}

llama_pos LengthOf(const ContextPtr& context, llama_seq_id sequence) {
  return llama_memory_seq_pos_max(llama_get_memory(context.get()), sequence) + 1;
}

// Computes the tokens behind those of the sequence. Returns the logits of the last.
std::vector<float> Compute(const ContextPtr& context, llama_seq_id sequence,
                           const std::vector<Token>& tokens) {
  const auto count = static_cast<std::int32_t>(tokens.size());
  llama_batch batch = llama_batch_init(count, /*embd=*/0, /*n_seq_max=*/1);
  batch.n_tokens = count;
  for (std::int32_t i = 0; i < count; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = LengthOf(context, sequence) + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = sequence;
    batch.logits[i] = i + 1 == count ? 1 : 0;
  }
  EXPECT_EQ(llama_decode(context.get(), batch), 0);
  llama_batch_free(batch);
  const float* logits = llama_get_logits_ith(context.get(), -1);
  const llama_model* model = llama_get_model(context.get());
  return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model))};
}

// The token that these logits make most likely.
std::ptrdiff_t Best(const std::vector<float>& logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

TEST(AStateIsThatOfOneSequenceAndReplacesAnother) {
  for (const std::string& path : test::ModelsOfEachMemory()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const ContextPtr context = NewContext(*model);
    (void)Compute(context, 0, Tokens(40, 1));
    (void)Compute(context, 1, Tokens(25, 7));
    (void)Compute(context, 2, Tokens(60, 3));
    const StateBytes state = SaveSequence(context.get(), 0);
    REQUIRE(!state.empty());
    EXPECT_EQ(LoadSequence(context.get(), 2, state), state.size());
    EXPECT(LengthOf(context, 0) == 40 && LengthOf(context, 1) == 25 && LengthOf(context, 2) == 40);
    EXPECT_EQ(Best(Compute(context, 2, Tokens(1, 5))), Best(Compute(context, 0, Tokens(1, 5))));
  }
}

TEST(BytesBehindAStateAreTheCallers) {
  constexpr std::size_t kMore = 13;
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const ContextPtr context = NewContext(*model);
  (void)Compute(context, 0, Tokens(40, 1));
  const StateBytes plain = SaveSequence(context.get(), 0);
  StateBytes state = SaveSequence(context.get(), 0, kMore);
  REQUIRE(!plain.empty() && state.size() == plain.size() + kMore);
  EXPECT(std::ranges::equal(std::span(state).first(plain.size()), plain));
  std::ranges::fill(std::span(state).last(kMore), 0xff);
  EXPECT_EQ(LoadSequence(context.get(), 1, state), plain.size());
  EXPECT_EQ(LengthOf(context, 1), 40);
}

TEST(AStateIsLoadedIntoAnyId) {
  constexpr llama_seq_id kFar = 200;  // not below n_seq_max
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const ContextPtr context = NewContext(*model);
  (void)Compute(context, 0, Tokens(40, 1));
  const StateBytes state = SaveSequence(context.get(), 0);
  EXPECT_EQ(LoadSequence(context.get(), kFar, state), state.size());
  EXPECT_EQ(LengthOf(context, kFar), 40);
}

TEST(WhatCannotBeSavedOrLoadedThrowsNothing) {
  for (const std::string& path : test::ModelsOfEachMemory()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const ContextPtr context = NewContext(*model);
    (void)Compute(context, 0, Tokens(40, 1));
    // More bytes than there can be.
    EXPECT(SaveSequence(context.get(), 0, std::numeric_limits<std::ptrdiff_t>::max()).empty());
    const StateBytes state = SaveSequence(context.get(), 0);
    REQUIRE(!state.empty());
    EXPECT_EQ(LoadSequence(context.get(), 1, {}), 0U);
    EXPECT_EQ(LoadSequence(context.get(), 1, std::span(state).first(state.size() - 1)), 0U);
    StateBytes damaged = state;
    damaged[0] ^= 1;
    EXPECT_EQ(LoadSequence(context.get(), 1, damaged), 0U);
    EXPECT_EQ(LengthOf(context, 0), 40);
  }
  // A state of more cells than the cache has.
  const auto model = test::LoadTinyModel(test::TinyModels()[0]);
  REQUIRE(model != nullptr);
  const ContextPtr large = NewContext(*model, 1024);
  const ContextPtr small = NewContext(*model, 256);
  (void)Compute(large, 0, Tokens(400, 1));
  EXPECT_EQ(LoadSequence(small.get(), 0, SaveSequence(large.get(), 0)), 0U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
