// One generation as the runner keeps it, from Submit to its last output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/share.h"
#include "engine/base/status.h"
#include "engine/cache/prefix_cache.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/model/answer_reader.h"
#include "engine/model/cost_model.h"
#include "engine/model/decoder.h"
#include "engine/model/media_rows.h"
#include "engine/run/answer_text.h"
#include "engine/run/repetition_guard.h"
#include "engine/types/adapters.h"
#include "engine/types/output.h"
#include "engine/types/request.h"

namespace svc {

// What a caller hands over.
struct Submission {
  GenerationId id = 0;
  std::vector<Token> prompt;  // REQUIRES: not empty, shorter than the largest cache
  std::optional<std::uint32_t> max_tokens;
  std::optional<std::uint32_t> truncated_tokens;  // see GenerationUsage
  std::unique_ptr<Sampler> sampler;
  std::vector<std::string> stop;           // of the request
  std::vector<std::string> own_stop = {};  // of the model's template
  RepetitionMode repetition_guard = RepetitionMode::kOff;
  // Splits the text into content, reasoning and tool calls. Null: all of it is content.
  std::unique_ptr<AnswerReader> reader;
  // Control tokens that belong to the text, with their bytes.
  std::map<Token, std::string> spelled = {};
  Priority priority = Priority::kInteractive;
  // True if its prompt may come from the prefix cache, and other generations may follow it there.
  // If not, it uses the prefix cache only for its own tokens while it is preempted, and it gets no
  // drafts.
  bool reuse_prefix = true;
  // True: the prompt may come only from generations of the same group (scope.salt is the group's),
  // and is computed in the same batches as a prompt that shares nothing (IsPlain).
  bool in_group = false;
  AdapterSet adapters = {};  // LoRA adapters that it is computed with; part of scope.salt
  PrefixScope scope;
  bool store = true;          // the disk tier may keep its tokens
  bool lists_tokens = false;  // in its outputs
  // Pictures and sounds, in the order of the prompt. REQUIRES: the prompt does not end with one.
  std::vector<MediaRows> media = {};
  Clock::time_point submitted_at = Clock::now();
};

// Owner: the Loop. Thread: the runner's.
class Generation : Submission {
 public:
  explicit Generation(Submission submission)
      : Submission(std::move(submission)),
        tokens(std::move(prompt)),
        prompt_size(static_cast<std::uint32_t>(tokens.size())),
        delivered{.listed = prompt_size},
        answer(std::move(stop), std::move(own_stop)),
        guard(repetition_guard) {}

  using Submission::adapters, Submission::media, Submission::spelled;
  using Submission::id, Submission::max_tokens, Submission::sampler, Submission::priority;
  using Submission::reuse_prefix, Submission::in_group, Submission::scope, Submission::store;
  using Submission::submitted_at;

  // What speculative decoding knows of it.
  struct Drafting {
    PromptLookup lookup;
    double trust = 1;  // recent part of rows beside drafts that were trusted
    // A row computed beside drafts whose lead was too small to be trusted (tie_guard.h).
    struct Doubt {
      std::size_t rows = 0;       // of that step
      std::optional<float> lead;  // absent: unknown
    };
    std::optional<Doubt> doubt;  // the next row is computed without drafts
  };
  // How many of the tokens are in earlier outputs.
  struct Delivered {
    std::uint32_t listed = 0;      // of all, the prompt included, as tokens
    std::uint32_t attributed = 0;  // of the generated ones, as text
    std::uint32_t reasoning = 0;   // of these, as text of the reasoning
  };
  // The most urgent of the generations that wait for this one's prompt.
  struct Wanted {
    double by_ms = std::numeric_limits<double>::infinity();       // its deadline (DeadlineOf)
    double by_counter = std::numeric_limits<double>::infinity();  // of its share (fair_queue.h)
  };

  // Rows until it can sample: tokens that are not in the cache, of a new generation or a preempted
  // one.
  std::uint32_t pending() const { return static_cast<std::uint32_t>(tokens.size()) - computed; }
  // False: it has ended, or waits for its receiver, the disk or more cells.
  bool may_go_on() const { return !ended && !paused && !fetching && !outgrown; }
  bool in_cache() const { return sequence >= 0; }
  // True if the prompt is computed in the batches of a plain llama.cpp loop, without padding, and
  // is therefore rounded alike.
  bool IsPlain() const { return !reuse_prefix || in_group; }
  // Number of the next `rows` rows that one batch computes: tokens, or a picture or sound.
  std::uint32_t OfOneKind(std::uint32_t rows) const { return RowsOfOneKind(media, computed, rows); }
  // Cells that no other sequence shares.
  std::uint32_t own_cells() const { return computed - pin.length; }
  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(tokens.size()) - prompt_size;
  }
  // True if neither the request nor a cache of that many cells has room for a further token.
  bool IsFull(std::uint32_t cells) const {
    return generated() == max_tokens || tokens.size() >= cells;
  }

  double SinceSubmit(Clock::time_point now) const { return Milliseconds(now - submitted_at); }

  // Bytes that the token adds to the text.
  std::string Piece(const Decoder& decoder, Token token) const {
    const auto found = spelled.find(token);
    return found != spelled.end() ? found->second : decoder.Piece(token);
  }
  // Adds a token's bytes, and appends the text that may be shown now to *text, all of which is yet
  // to be passed to Write. True: a stop string ends the answer. Those of the request end only the
  // content: models repeat them in their reasoning, and a call that is cut off cannot be carried
  // out.
  bool Say(const std::string& piece, std::string* text) {
    bool stopped = answer.Say(piece, text);
    while (stopped && reader != nullptr && answer.stopped_by() != nullptr &&
           !reader->BeginsInContent(*text, *answer.stopped_by())) {
      stopped = answer.PassStop(text);
    }
    return stopped;
  }
  // Puts a piece of the text into *output, and the tokens since the last one, if they are wanted.
  void Write(std::string text, bool last, GenerationOutput* output) {
    if (lists_tokens) {
      output->tokens.assign(tokens.begin() + delivered.listed, tokens.end());
      delivered.listed = static_cast<std::uint32_t>(tokens.size());
    }
    if (reader == nullptr) {
      output->text = std::move(text);
      output->logprobs = answer.TakeLogprobs();
      return;
    }
    reader->Read(text, last, output);
    CountReasoning(*output);
    answer.MoveLogprobsTo(output);
  }
  // Tokens whose text is held back are counted with the text that they become part of.
  void CountReasoning(const GenerationOutput& output) {
    const bool is_reasoning = !output.reasoning.empty();
    if (!is_reasoning && output.text.empty() && output.tool_calls.empty()) return;
    if (is_reasoning) delivered.reasoning += generated() - delivered.attributed;
    delivered.attributed = generated();
  }
  // The last output; `text`: the rest of the text.
  GenerationOutput End(Clock::time_point now, FinishReason reason, std::string text) {
    ended = true;
    timings.finished_ms = SinceSubmit(now);
    GenerationOutput output;
    output.id = id;
    Write(std::move(text), /*last=*/true, &output);
    output.done = true;
    const bool called = reader != nullptr && reader->has_called();
    output.reason = called && reason == FinishReason::kStop ? FinishReason::kToolCalls : reason;
    if (const std::string* by = answer.stopped_by(); by != nullptr && !called) {
      output.stop_string = *by;
    }
    output.usage = {.input_tokens = prompt_size,
                    .output_tokens = generated(),
                    .reasoning_tokens =
                        delivered.reasoning > 0 ? std::optional(delivered.reasoning) : std::nullopt,
                    .cached_tokens = cached_tokens,
                    .truncated_tokens = truncated_tokens};
    output.repetition = guard.found();
    output.timings = timings;
    return output;
  }
  GenerationOutput Fail(Clock::time_point now, Status status, std::string text = "") {
    GenerationOutput output = End(now, FinishReason::kStop, std::move(text));
    output.status = std::move(status);
    return output;
  }

  std::vector<Token> tokens;  // prompt and generated tokens
  const std::uint32_t prompt_size;
  Delivered delivered;
  std::uint32_t computed = 0;  // of `tokens`, in the cache
  SequenceId sequence = -1;    // negative: not in the cache
  PrefixCache::Pin pin;        // of the computed ones, those in cells of the prefix cache
  std::uint32_t cached_tokens = 0;
  std::uint64_t last_step = 0;       // number of the last step it took part in
  std::uint64_t last_text_step = 0;  // number of the last step that gave it text; 0: none did
  bool paused = false;
  bool ended = false;     // its last output has been made
  bool fetching = false;  // waits for the disk tier to read its prefix
  bool arrived = false;   // the disk tier has been asked for its prefix
  bool outgrown = false;  // waits for more cells (growth.h)
  bool confined = false;  // has been refused more cells

  AnswerText answer;
  RepetitionGuard guard;
  Drafting drafting;
  Wanted wanted;
  GenerationTimings timings;
};

// All generations of a loop, in order of arrival.
using Generations = std::vector<std::unique_ptr<Generation>>;

}  // namespace svc
