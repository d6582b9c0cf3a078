// What an engine is asked and what it answers: the values that every part of it speaks of.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/status.h"

namespace svc {

using Token = std::int32_t;
using GenerationId = std::uint32_t;

// Of the keys and values in the cache. kQ8_0 takes about half of what kF16 takes, and little of the
// quality; not every model's shape allows it (kModelInvalid).
enum class CacheType { kF16, kQ8_0 };

struct LoadOptions {
  std::string path;
  // Tokens of the unified KV cache, shared by all sequences. 0: what the model was trained for, at
  // most kDefaultContextLength.
  std::uint32_t context_length = 0;
  // 0: one for each physical core this process may run on, fewer for a very small model.
  int threads = 0;
  // For long prompts, and for embeddings. 0: as many as `threads`.
  int prompt_threads = 0;
  // Layers on the GPU. Negative: all, where there is one.
  int gpu_layers = -1;
  CacheType cache_type = CacheType::kF16;
  // Sequences that may be in the cache at one time; later ones wait. At most 255; what is left of
  // these ids serves the prefix cache.
  std::uint32_t max_sequences = 64;
  // Where prefixes are kept on the disk, beside those of other models; empty: nowhere. Made, for
  // its owner alone, if it is not there. What cannot be written is not kept.
  std::string prefix_folder;
  // The name of this model there: letters and digits.
  std::string prefix_model;
  std::uint64_t prefix_bytes = 0;  // of all files in the folder, those of other models included
  // The secret under which files there are authenticated and shares are named. Absent: a random
  // one, so no later engine reads these files.
  std::optional<std::array<std::uint64_t, 2>> prefix_key;
  // A small model that drafts what this one says next (drafter.h); empty: none. One that cannot do
  // it is no error: ModelInfo tells.
  std::string draft_path;
  // Called on the loading thread with 0..1; false cancels the load (kCancelled).
  std::function<bool(float fraction)> on_progress;
};

inline constexpr std::uint32_t kDefaultContextLength = 8192;

// llama.cpp's defaults and order: logit bias, penalties, top-k, top-p, min-p, temperature, draw.
struct SamplingParams {
  float temperature = 0.80F;  // 0: greedy
  int top_k = 40;             // 0: all
  float top_p = 0.95F;        // 1: off
  float min_p = 0.05F;        // 0: off
  int penalty_last_n = 64;
  float repeat_penalty = 1.0F;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  std::optional<std::uint32_t> seed;  // absent: drawn from the system's entropy
  std::vector<std::pair<Token, float>> logit_bias;
};

struct ModelInfo {
  std::string description;   // "llama 1B Q4_0"
  std::string architecture;  // "llama"
  std::string quantization;  // "Q4_0"
  std::uint64_t parameters = 0;
  std::uint64_t size_bytes = 0;  // of the tensors
  std::uint32_t trained_context_length = 0;
  std::uint32_t context_length = 0;    // of this engine: its cells, or the longest input to embed
  std::uint32_t vocabulary = 0;        // tokens
  std::uint32_t embedding_length = 0;  // floats of a hidden state, or of an embedding
  std::uint32_t layers = 0;
  int threads = 0;
  bool has_chat_template = false;
  bool makes_embeddings = false;  // and no text
  // What a request that says nothing about it gets: the file's `general.sampling.*`, else
  // llama.cpp's.
  SamplingParams sampling;
  // Why the draft model that was asked for drafts nothing, in words that go on after "the draft
  // model". Empty: it does, or none was asked for.
  std::string draft_refusal;
  std::string device;  // where the layers are: "CPU", or the GPU's name
  std::vector<std::pair<std::string, std::string>> metadata;  // scalar GGUF keys, as text
};

struct ChatMessage {
  std::string role;
  std::string content;
};

// Batch work makes way for interactive work, but does not wait for ever: see scheduler.h.
enum class Priority { kInteractive, kBatch };

struct GenerationRequest {
  // Chosen by the caller; unique among the generations alive.
  GenerationId id = 0;
  // Either a chat (rendered with the model's template; what a message says can never become a
  // control token) ...
  std::vector<ChatMessage> messages;
  // ... or, if there are no messages, a raw prompt: BOS is added as the model asks, and special
  // token text in it is parsed, as llama-server's /completion does.
  std::string prompt;
  // Absent: until the model ends its turn or the context is full.
  std::optional<std::uint32_t> max_tokens;
  // What does not fit in the context is left out (truncation.h) and not refused; the usage tells
  // how much.
  bool truncate = false;
  SamplingParams sampling;
  std::vector<std::string> stop;
  Priority priority = Priority::kInteractive;
  // What the prefix cache has of the prompt need not be computed. Without effect in a request with
  // a seed, which asks for a text that can be had again: what was computed in other company, or
  // lies elsewhere in the cache, is rounded in another way. If such a request is alone, it gets an
  // empty cache, its tokens are not drafted, and its text is that of a plain llama.cpp loop.
  bool reuse_prefix = true;
  // Name of the client: an API key, an address (share.h). Its tokens are counted together, and
  // `cached_tokens` counts only what clients of that name sent before.
  std::string share;
  // Prefixes are reused only between requests of that share.
  bool own_prefixes = false;
  // false: the prompt and the answer are not written to the disk.
  bool store = true;
  // GBNF that the text has to follow; empty: none. The text ends when nothing of the grammar can
  // follow.
  std::string grammar;
  // Tell the probability of each token, and of this many of the likeliest; absent: of none.
  std::optional<std::uint32_t> logprobs;
};

struct TokenLogprob {
  std::string bytes;  // may end inside a UTF-8 character; of a control token, its name
  float logprob = 0;  // natural; of the model's distribution before anything was made of it
};
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // likeliest first
};

// A text, to which the special tokens are added that the model asks for (what looks like one in it
// stays text); or tokens, which are taken as they are.
using EmbeddingInput = std::variant<std::string, std::vector<Token>>;

struct EmbeddingRequest {
  // Chosen by the caller; unique among all that is alive, generations included.
  GenerationId id = 0;
  // REQUIRES: tokens are in the vocabulary.
  std::vector<EmbeddingInput> inputs;
  // An input that is too long loses its end and is not refused; the usage tells how much.
  bool truncate = false;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct GenerationUsage {
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;  // taken from the prefix cache, and sent by this share before
  // What was left out, and is not counted as input. Absent: the request did not allow it.
  std::optional<std::uint32_t> truncated_tokens;
};

// Milliseconds since Submit. Negative: did not happen.
struct GenerationTimings {
  double started_ms = -1;  // the runner took it up
  double first_token_ms = -1;
  double finished_ms = -1;
};

// What one generation, or one request for embeddings, produced in one step.
struct GenerationOutput {
  GenerationId id = 0;
  std::string text;  // whole UTF-8, never part of a stop string
  // The vectors of the inputs after those delivered before, one behind the other; each has
  // Euclidean length 1.
  std::vector<float> embeddings;
  // Of the tokens that begin in `text`, where they were asked for.
  std::vector<TokenLogprobs> logprobs;
  // Set on the last output of a generation: finished, or failed with `status`.
  bool done = false;
  FinishReason reason = FinishReason::kStop;
  Status status;
  GenerationUsage usage;
  GenerationTimings timings;
};

using OutputSink = std::function<void(std::vector<GenerationOutput>)>;

// What one step held, and whether the cost model saw it coming.
struct StepStats {
  std::uint32_t rows = 0;         // with those that only pad it
  std::uint32_t prompt_rows = 0;  // of them
  double predicted_ms = 0;        // 0: nothing has been measured
  double spent_ms = 0;
};

// Counters run since the model was loaded.
struct EngineStats {
  std::uint32_t active = 0;        // in the cache
  std::uint32_t waiting = 0;       // submitted, not yet in the cache
  std::uint32_t cells_used = 0;    // by generations that are alive
  std::uint32_t cells_cached = 0;  // by prefixes that are kept until their cells are wanted
  std::uint32_t cells_total = 0;
  std::uint32_t swapped_tokens = 0;  // of prefixes that are kept outside the cells
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t prompt_tokens = 0;  // computed
  std::uint64_t cached_tokens = 0;  // of prompts, not computed
  std::uint64_t generated_tokens = 0;
  std::uint64_t drafted_tokens = 0;   // computed before it was known that they would be said
  std::uint64_t accepted_tokens = 0;  // of them, said
  std::uint64_t preemptions = 0;
  std::uint64_t evicted_cells = 0;
  double predicted_ms = 0;  // of all steps
  double spent_ms = 0;
  StepStats last_step;
  std::uint32_t threads = 0;     // that compute; fewer while other programs keep the cores busy
  double tokens_per_second = 0;  // generated, over the last few seconds of work; 0: idle
  double step_age_ms = 0;        // how long the step now running has run; 0: none runs
};

}  // namespace svc
