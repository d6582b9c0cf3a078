// A fake Encoder without a model: an input's vector is a hash of its tokens. It checks that the
// embedder keeps the Encoder's contract, can be held in the middle of a batch, and fails on demand.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/model/encoder.h"
#include "test.h"

namespace svc::test {

constexpr std::uint32_t kFakeLength = 3;
constexpr std::uint32_t kFakeBatchTokens = 32;
constexpr std::uint32_t kFakeMaxTokens = 100;
constexpr std::uint32_t kFakeMaxInputs = 8;
// An input that contains this token fails.
constexpr Token kFakePoison = 13;

inline std::vector<float> VectorOf(std::span<const Token> input) {
  std::uint32_t hash = 2166136261U;
  for (const Token token : input) hash = (hash ^ static_cast<std::uint32_t>(token)) * 16777619U;
  return {static_cast<float>(hash & 0xFFU), static_cast<float>(hash >> 8U & 0xFFU),
          static_cast<float>(input.size())};
}

// Controls and observes a FakeEncoder. Outlives the encoder. Thread: any.
class FakeEncoderRecord {
 public:
  // While on, batches wait until they are aborted.
  void HoldBatches(bool on) {
    const std::lock_guard lock(mutex_);
    held_ = on;
    changed_.notify_all();
  }
  // Number of batches that have begun.
  std::size_t batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  friend class FakeEncoder;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::size_t batches_ = 0;
};

class FakeEncoder final : public Encoder {
 public:
  explicit FakeEncoder(FakeEncoderRecord* record) : record_(record) {}

  Status Encode(std::span<const std::span<const Token>> inputs, const std::atomic<bool>& abort,
                std::vector<float>* vectors) override {
    EXPECT(!inputs.empty() && inputs.size() <= kFakeMaxInputs);
    std::size_t tokens = 0;
    for (const auto& input : inputs) tokens += input.size();
    EXPECT(tokens <= kFakeBatchTokens || inputs.size() == 1);
    {
      std::unique_lock lock(record_->mutex_);
      ++record_->batches_;
      while (record_->held_ && !abort) {
        record_->changed_.wait_for(lock, std::chrono::milliseconds(1));
      }
    }
    if (abort) return {StatusCode::kCancelled, "aborted"};
    vectors->clear();
    for (const auto& input : inputs) {
      for (const Token token : input) {
        if (token == kFakePoison) return {StatusCode::kInternal, "poison"};
      }
      for (const float value : VectorOf(input)) vectors->push_back(value);
    }
    return Status::Ok();
  }

  std::uint32_t length() const override { return kFakeLength; }
  std::uint32_t max_tokens() const override { return kFakeMaxTokens; }
  std::uint32_t max_inputs() const override { return kFakeMaxInputs; }
  std::uint32_t batch_tokens() const override { return kFakeBatchTokens; }

 private:
  FakeEncoderRecord* const record_;
};

}  // namespace svc::test
