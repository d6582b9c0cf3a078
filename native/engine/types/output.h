// What an engine delivers for a request.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/field.h"
#include "engine/base/ids.h"
#include "engine/base/status.h"

namespace svc {

struct TokenLogprob {
  std::string bytes;  // may end inside a UTF-8 character; the name of a control token
  float logprob = 0;  // natural; from the raw logits, before biases, penalties and samplers
};
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first
};

enum class FinishReason { kStop, kLength, kToolCalls, kCancelled };
constexpr auto Names(FinishReason) {
  return std::array{"stop", "length", "tool_calls", "cancelled"};
}

struct GenerationUsage {
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  // Of output_tokens, those of the reasoning. Tokens of its tags may count. Absent: none.
  std::optional<std::uint32_t> reasoning_tokens;
  std::uint32_t cached_tokens = 0;  // from the prefix cache and sent by this share before
  // Tokens removed by truncation; not part of input_tokens. Absent: the request did not allow
  // truncation.
  std::optional<std::uint32_t> truncated_tokens;

  SVC_FIELDS(GenerationUsage, (input_tokens), (output_tokens),
             (reasoning_tokens, .omit_absent = true), (cached_tokens),
             (truncated_tokens, .omit_absent = true))
};

// An answer that repeats itself (repetition_guard.h).
struct Repetition {
  std::uint32_t period_tokens = 0;    // length of the cycle
  std::uint32_t repeated_tokens = 0;  // length of all its repetitions together
  bool stopped = false;               // the answer was ended for it

  SVC_FIELDS(Repetition, (period_tokens), (repeated_tokens), (stopped))
};

// Milliseconds since Submit. Negative: has not happened.
struct GenerationTimings {
  double started_ms = -1;  // the runner admitted it
  double first_token_ms = -1;
  double finished_ms = -1;

  SVC_FIELDS(GenerationTimings, (started_ms, .nullable = true), (first_token_ms, .nullable = true),
             (finished_ms))
};

// Number of KV-cache cells that a generation needs to continue.
struct CellDemand {
  std::uint32_t least = 0;   // for its next token
  std::uint32_t wanted = 0;  // for its answer, as far as can be expected

  SVC_FIELDS(CellDemand, (least), (wanted))
};

// Part of a tool call. The first part of an index has the name, and the id if the model writes one;
// the arguments of all parts are joined.
struct ToolCallPart {
  std::uint32_t index = 0;
  std::string id;
  std::string name;
  std::string arguments;

  SVC_FIELDS(ToolCallPart, (index), (id), (name), (arguments))
};

// Output of one generation, or of one request for embeddings or scores, since the last delivery.
struct GenerationOutput {
  GenerationId id = 0;
  std::string text;  // whole UTF-8 characters, no part of a stop string that ended it
  std::string reasoning;
  std::vector<ToolCallPart> tool_calls;
  // Vectors of the inputs that follow those already delivered, concatenated. Each has Euclidean
  // length 1; of a model that ranks, each is one number, the score of a document.
  std::vector<float> embeddings;
  // For the tokens that begin in `text`, if requested.
  std::vector<TokenLogprobs> logprobs;
  // Only with a Continuation: tokens generated since the last output. All content delivered so far
  // was made from these and earlier tokens.
  std::vector<Token> tokens = {};
  // Present: the generation waits until the receiver has answered with TextEngine::GrantCells.
  std::optional<CellDemand> cells;
  // True for the last output of a request: it has finished, or failed with `status`.
  bool done = false;
  FinishReason reason = FinishReason::kStop;
  // With kStop: the stop string of the request that ended the answer. Absent: none did.
  std::optional<std::string> stop_string = {};
  Status status;
  GenerationUsage usage;
  std::optional<Repetition> repetition;
  GenerationTimings timings;

  bool has_content() const {
    return !text.empty() || !reasoning.empty() || !tool_calls.empty() || !logprobs.empty();
  }
};

using OutputSink = std::function<void(std::vector<GenerationOutput>)>;

}  // namespace svc
