// A model without a model. It holds the runner to the Decoder's contract, and its logits are a hash
// of all that the sequence has in the cache: one wrong token, position or forgotten cell anywhere
// and the text that follows is another one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/decoder.h"
#include "engine/generation.h"
#include "test.h"

namespace svc::test {

inline constexpr std::size_t kFakeVocabulary = 64;
inline constexpr Token kFakeEnd = 0;

// The token that follows, given all tokens before it and the sampler's own random state.
inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31U);
}
inline std::uint64_t HashOf(const std::vector<Token>& tokens) {
  std::uint64_t hash = 1;
  for (const Token token : tokens) hash = Mix(hash, static_cast<std::uint64_t>(token));
  return hash;
}
// Floats that hold 16 bits of the hash each, exactly.
inline void LogitsOf(std::uint64_t hash, float* logits) {
  for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
    logits[i] = static_cast<float>(Mix(hash, i) & 0xFFFFU);
  }
}

// Depends on every logit and on how often it has been asked: preempting a generation must disturb
// neither. About one draw in 80 ends the text.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(std::uint64_t seed) : state_(seed) {}

  Token Sample(const float* logits) override {
    for (std::size_t i = 0; i < kFakeVocabulary; ++i) {
      state_ = Mix(state_, static_cast<std::uint64_t>(logits[i]));
    }
    if (state_ % 80 == 0) return kFakeEnd;
    return static_cast<Token>(1 + (state_ >> 8U) % (kFakeVocabulary - 1));
  }

 private:
  std::uint64_t state_;
};

// Two tokens are halves of a character, so that the text is not what single tokens say.
inline std::string FakePiece(Token token) {
  if (token == kFakeEnd) return "";
  if (token == 1) return "\xE2\x82";
  if (token == 2) return "\xAC";
  return {static_cast<char>('0' + token)};
}

struct FakeOptions {
  std::uint32_t cells = 1024;
  std::uint32_t max_rows = 64;
  std::uint32_t max_sequences = 8;
  // Called before each step, on the runner thread; what it returns is what happens.
  std::function<DecodeOutcome(std::span<const Row>, const std::atomic<bool>& abort)> fault;
};

// What remains visible after the runner took the decoder.
struct FakeRecord {
  std::atomic<std::uint32_t> steps = 0;
  std::atomic<std::uint32_t> largest_batch = 0;  // sequences
  std::atomic<std::uint32_t> removals = 0;
  std::atomic<std::uint32_t> cells = 0;  // in use
};

class FakeDecoder final : public Decoder {
 public:
  FakeDecoder(FakeOptions options, FakeRecord* record)
      : options_(std::move(options)), record_(record) {}

  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override {
    ++record_->steps;
    EXPECT(!rows.empty());
    EXPECT(rows.size() <= options_.max_rows);
    if (options_.fault) {
      const DecodeOutcome outcome = options_.fault(rows, abort);
      if (outcome != DecodeOutcome::kDone) return outcome;
    }
    if (record_->cells + rows.size() > options_.cells) {
      Fail(__FILE__, __LINE__, "a step was planned without cells for it");
      return DecodeOutcome::kNoCells;
    }
    logits_.assign(rows.size() * kFakeVocabulary, 0);
    std::set<SequenceId> sequences;
    std::set<SequenceId> asked;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      EXPECT(row.sequence >= 0 && row.sequence < static_cast<SequenceId>(options_.max_sequences));
      std::vector<Token>& tokens = sequences_[row.sequence];
      EXPECT_EQ(row.position, static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(row.token);
      ++record_->cells;
      sequences.insert(row.sequence);
      if (!row.wants_logits) continue;
      EXPECT(asked.insert(row.sequence).second);
      LogitsOf(HashOf(tokens), &logits_[i * kFakeVocabulary]);
    }
    record_->largest_batch = std::max<std::uint32_t>(record_->largest_batch, sequences.size());
    return DecodeOutcome::kDone;
  }

  const float* Logits(std::size_t index) override { return &logits_[index * kFakeVocabulary]; }

  std::int32_t NextPosition(SequenceId sequence) const override {
    const auto found = sequences_.find(sequence);
    return found == sequences_.end() ? 0 : static_cast<std::int32_t>(found->second.size());
  }
  void RemoveSequence(SequenceId sequence) override {
    ++record_->removals;
    record_->cells -= static_cast<std::uint32_t>(sequences_[sequence].size());
    sequences_.erase(sequence);
  }

  bool IsEndOfGeneration(Token token) const override { return token == kFakeEnd; }
  std::string Piece(Token token) const override { return FakePiece(token); }
  std::uint32_t max_rows() const override { return options_.max_rows; }
  std::uint32_t max_sequences() const override { return options_.max_sequences; }
  std::uint32_t cells_total() const override { return options_.cells; }

 private:
  const FakeOptions options_;
  FakeRecord* const record_;
  std::map<SequenceId, std::vector<Token>> sequences_;
  std::vector<float> logits_;
};

}  // namespace svc::test
