// A prefix cache over the fake model's cells, filled as the Loop fills it.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "engine/cache/prefix_cache.h"
#include "engine/model/media_rows.h"
#include "fake_decoder.h"
#include "test.h"

namespace svc::test {

// Computes uncached tokens and publishes them.
class CacheBench {
 public:
  static constexpr SequenceId kFirstId = 8;

  CacheBench(FakeOptions options, std::uint32_t max_swapped)
      : decoder(std::move(options), &record),
        cache(&decoder, kFirstId, static_cast<SequenceId>(decoder.sequence_ids()), max_swapped) {}

  PrefixCache::Pin Take(const std::vector<Token>& tokens, SequenceId sequence,
                        PrefixScope scope = {}) {
    PrefixCache::Pin pin = cache.Take(scope, tokens, sequence);
    cache.SwapIn(tokens, sequence, decoder.cells_total() - record.cells, pin);
    return pin;
  }

  // Returns the number of cached tokens.
  std::uint32_t Run(const std::vector<Token>& tokens, SequenceId sequence = 0,
                    PrefixScope scope = {}) {
    PrefixCache::Pin pin = Take(tokens, sequence, scope);
    const std::uint32_t cached = pin.length;
    Compute(tokens, sequence);
    cache.Publish(scope, tokens, sequence, pin);
    Leave(sequence, pin);
    return cached;
  }
  // Computes the tokens that the sequence does not have yet.
  void Compute(const std::vector<Token>& tokens, SequenceId sequence) {
    std::vector<Row> rows;
    for (auto at = decoder.NextPosition(sequence); at < static_cast<std::int32_t>(tokens.size());
         ++at) {
      rows.push_back({.token = tokens[at], .position = at, .sequence = sequence});
    }
    for (std::size_t at = 0; at < rows.size(); at += 64) {
      const std::size_t count = std::min<std::size_t>(64, rows.size() - at);
      EXPECT(decoder.Decode(std::span(rows).subspan(at, count), never_) == DecodeOutcome::kDone);
    }
  }
  void Leave(SequenceId sequence, PrefixCache::Pin& pin) {
    decoder.RemoveSequence(sequence);
    cache.Release(pin);
  }

  FakeRecord record;
  FakeDecoder decoder;
  PrefixCache cache;

 private:
  const std::atomic<bool> never_ = false;
};

// Ids of a picture's rows.
inline std::vector<Token> Picture(Token number, std::size_t rows) {
  return MediaTokens({static_cast<std::uint64_t>(number), 0}, static_cast<std::uint32_t>(rows));
}

}  // namespace svc::test
