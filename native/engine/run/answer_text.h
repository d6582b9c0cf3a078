// The text of an answer, with the log probabilities of its tokens: both are held back until they
// may be shown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/text_stream.h"
#include "engine/run/text_logprobs.h"
#include "engine/types/output.h"

namespace svc {

// Owner: one Generation. Not thread-safe.
class AnswerText {
 public:
  // As TextStream.
  AnswerText(std::vector<std::string> stop, std::vector<std::string> own_stop)
      : stream_(std::move(stop), std::move(own_stop)) {}

  // Adds a token's bytes; what may be shown now is appended to *text. True: a stop string ends it.
  bool Say(const std::string& piece, std::string* text) {
    said_bytes_ += piece.size();
    return stream_.Push(piece, text);
  }
  // The stop string of the request that ended it is text after all. Otherwise as Say.
  bool PassStop(std::string* text) { return stream_.PassStop(text); }
  // Log probabilities of the next token; delivered with the text that the token begins.
  void Tell(const TokenLogprobs& logprobs) { untold_.push_back({said_bytes_, logprobs}); }
  // Appends everything held back to *text. For an answer that ended without a stop string.
  void Finish(std::string* text) { stream_.Finish(text); }

  // Log probabilities of the tokens that begin in text already shown.
  std::vector<TokenLogprobs> TakeLogprobs() {
    // A replacement character that is held back is longer than the bytes that it replaces.
    const std::uint64_t held = std::min<std::uint64_t>(stream_.held(), said_bytes_);
    const std::uint64_t shown = said_bytes_ - held;
    std::vector<TokenLogprobs> told;
    while (!untold_.empty() && untold_.front().begins_at < shown) {
      told.push_back(std::move(untold_.front().logprobs));
      untold_.pop_front();
    }
    return told;
  }
  // The same, of the text that an AnswerReader has made of it (text_logprobs.h).
  void MoveLogprobsTo(GenerationOutput* output) {
    read_.Add(TakeLogprobs());
    read_.MoveTo(output);
  }
  // The stop string of the request that ended it. Null: none did.
  const std::string* stopped_by() const { return stream_.stopped_by(); }

 private:
  struct Untold {
    std::uint64_t begins_at = 0;  // of said_bytes_
    TokenLogprobs logprobs;
  };

  TextStream stream_;
  std::uint64_t said_bytes_ = 0;
  std::deque<Untold> untold_;
  TextLogprobs read_;
};

}  // namespace svc
