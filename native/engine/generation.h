// One generation as the runner keeps it, from Submit to its last output.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/decoder.h"
#include "engine/engine.h"
#include "engine/text_stream.h"

namespace svc {

using Clock = std::chrono::steady_clock;

// What a caller hands over.
struct Submission {
  GenerationId id = 0;
  std::vector<Token> prompt;  // REQUIRES: not empty, shorter than the cache
  std::optional<std::uint32_t> max_tokens;
  std::unique_ptr<Sampler> sampler;
  std::vector<std::string> stop;
  Clock::time_point submitted_at = Clock::now();
};

// Owner and thread: the runner.
class Generation {
 public:
  explicit Generation(Submission submission)
      : id(submission.id),
        tokens(std::move(submission.prompt)),
        prompt_size(static_cast<std::uint32_t>(tokens.size())),
        max_tokens(submission.max_tokens),
        sampler(std::move(submission.sampler)),
        stream(std::move(submission.stop)),
        submitted_at(submission.submitted_at) {}

  // Rows until it can sample. Whether it is new or was preempted makes no difference: what is
  // missing in the cache is computed.
  std::uint32_t pending() const { return static_cast<std::uint32_t>(tokens.size()) - computed; }
  bool in_cache() const { return sequence >= 0; }
  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(tokens.size()) - prompt_size;
  }

  double SinceSubmit() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - submitted_at).count();
  }

  // Adds the token's bytes to the text; what may be shown now is appended to *text. True: a stop
  // string ends it.
  bool Say(const std::string& piece, std::string* text) {
    const bool stopped = stream.Push(piece, text);
    said_bytes += piece.size();
    return stopped;
  }
  // Of the token that is said next: told with the text that it begins.
  void Tell(const TokenLogprobs& logprobs) { untold.push_back({said_bytes, logprobs}); }
  // Of the tokens that begin in what has been shown.
  std::vector<TokenLogprobs> TakeLogprobs() {
    const std::uint64_t shown = said_bytes - stream.held();
    std::vector<TokenLogprobs> told;
    while (!untold.empty() && untold.front().begins_at < shown) {
      told.push_back(std::move(untold.front().logprobs));
      untold.pop_front();
    }
    return told;
  }

  // The last output; `text` is what is still to be said.
  GenerationOutput End(FinishReason reason, std::string text) {
    ended = true;
    timings.finished_ms = SinceSubmit();
    GenerationOutput output;
    output.id = id;
    output.text = std::move(text);
    output.logprobs = TakeLogprobs();
    output.done = true;
    output.reason = reason;
    output.usage = {.input_tokens = prompt_size, .output_tokens = generated()};
    output.timings = timings;
    return output;
  }
  GenerationOutput Fail(Status status) {
    GenerationOutput output = End(FinishReason::kStop, "");
    output.status = std::move(status);
    return output;
  }

  const GenerationId id;

  std::vector<Token> tokens;  // the prompt and what has been generated
  const std::uint32_t prompt_size;
  std::uint32_t computed = 0;  // of `tokens`, in the cache
  SequenceId sequence = -1;    // negative: not in the cache
  bool paused = false;
  bool ended = false;  // its last output has been made

  const std::optional<std::uint32_t> max_tokens;
  std::unique_ptr<Sampler> sampler;
  TextStream stream;
  std::uint64_t said_bytes = 0;
  struct Untold {
    std::uint64_t begins_at = 0;  // of said_bytes
    TokenLogprobs logprobs;
  };
  std::deque<Untold> untold;  // logprobs of tokens that begin in text not yet shown

  const Clock::time_point submitted_at;
  GenerationTimings timings;
};

}  // namespace svc
