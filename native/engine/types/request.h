// Requests to an engine. The names are those of src/protocol/generate.ts: nothing between an HTTP
// body and these structs renames a field.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/field.h"
#include "engine/base/ids.h"
#include "engine/types/adapters.h"
#include "engine/types/chat.h"
#include "engine/types/sampling_params.h"

namespace svc {

// Class of a request. Batch requests get a later virtual deadline than interactive ones, so they
// wait longer but do not starve (scheduler.h).
enum class Priority { kInteractive, kBatch };
constexpr auto Names(Priority) { return std::array{"interactive", "batch"}; }

// What happens if an answer repeats itself without end (repetition_guard.h). kWarn: its last output
// reports it. kStop: it also ends.
enum class RepetitionMode { kOff, kWarn, kStop };
constexpr auto Names(RepetitionMode) { return std::array{"off", "warn", "stop"}; }

inline constexpr std::uint32_t kMaxLogprobs = 20;  // LIMITS.topLogprobs

// Another file beside the one with the gap.
struct InfillFile {
  std::string filename;
  std::string text;

  SVC_FIELDS(InfillFile, (filename, .required = true), (text, .required = true))
};

// A gap to fill in: the texts around it.
struct Infill {
  std::string prefix;
  std::string suffix;
  std::vector<InfillFile> extra;

  SVC_FIELDS(Infill, (prefix, .required = true), (suffix, .required = true), (extra))
};

// Makes an answer resumable. The outputs list their tokens; if the answer is cut off, a second
// request with all tokens so far continues it. Its samplers process each of these tokens again, so
// that their state, random numbers included, is the same as before.
struct Continuation {
  std::uint32_t seed = 0;     // of the sampler, unless the request sets one; the same in both
  std::vector<Token> tokens;  // first tokens of the answer; the logits do not matter there

  SVC_FIELDS(Continuation, (seed, .required = true), (tokens))
};

struct GenerationRequest {
  // Chosen by the caller; unique among the generations alive.
  GenerationId id = 0;
  // Either a chat, rendered with the model's template (text in a message never becomes a control
  // token) ...
  std::vector<ChatMessage> messages;
  ChatOptions chat;
  // ... or, if `messages` is empty, a raw prompt: BOS is added as the model's metadata asks, and
  // special-token text is parsed, as in llama-server's /completion.
  std::string prompt;
  // Tokens of a raw prompt instead of its text; used unchanged. REQUIRES: all in the vocabulary.
  std::vector<Token> prompt_tokens;
  // The raw prompt is the beginning of what fills this gap.
  std::optional<Infill> infill;
  // Absent: the answer is lost if it is cut off. REQUIRES: all tokens in the vocabulary.
  std::optional<Continuation> continuation;
  // Absent: until the model ends its turn or the context is full.
  std::optional<std::uint32_t> max_tokens;
  // True: a prompt that exceeds the context is truncated (truncation.h) instead of refused. The
  // usage reports the number of tokens removed.
  bool truncate = false;
  SamplingParams sampling;
  // LoRA adapters to compute with, in any order, each at most once. Those of scale 0 are ignored.
  std::vector<AdapterWish> lora;
  std::vector<std::string> stop;
  RepetitionMode repetition_guard = RepetitionMode::kOff;
  Priority priority = Priority::kInteractive;
  // True: the prompt's prefix may come from the prefix cache. Ignored for a request with a seed,
  // whose text must be reproducible: values that were computed in another batch, or are in other
  // cells, are rounded differently. While such a request runs alone, it gets an empty cache and no
  // drafts, and its text equals that of a plain llama.cpp loop.
  bool reuse_prefix = true;
  // Name of a group of requests, for example those for several answers to one prompt. Members that
  // run at the same time share the common beginning of their prompts, even with seeds. A request
  // with a seed shares with no request outside its group. Empty: no group.
  std::string prefix_group;
  // Name of the client: an API key or an address (share.h). Fairness counts tokens by share, and
  // `cached_tokens` counts only tokens that the same share sent before.
  std::string share;
  // True: prefixes are reused only among requests of this share.
  bool own_prefixes = false;
  // False: the prompt and the answer are not written to disk.
  bool store = true;
  // GBNF grammar that constrains the text; empty: none. The text ends once the grammar allows no
  // continuation.
  std::string grammar;
  // Number of most likely alternatives to report with each token's log probability. Absent: no log
  // probabilities.
  std::optional<std::uint32_t> logprobs;

  SVC_FIELDS(GenerationRequest, (id, .required = true), (messages), (chat), (prompt),
             (prompt_tokens), (infill), (continuation), (max_tokens), (truncate), (sampling),
             (lora), (stop), (repetition_guard), (priority), (reuse_prefix), (prefix_group),
             (share), (own_prefixes), (store), (grammar, .non_empty = true),
             (logprobs, .max = kMaxLogprobs))
};

// Either a text (special tokens are added as the model asks; text that looks like one stays text)
// or tokens, which are used unchanged.
using EmbeddingInput = std::variant<std::string, std::vector<Token>>;

struct EmbeddingRequest {
  // Chosen by the caller; unique among all requests alive, generations included.
  GenerationId id = 0;
  // REQUIRES: every token is in the vocabulary.
  std::vector<EmbeddingInput> input;
  // True: an input that is too long loses its end instead of being refused. The usage reports the
  // number of tokens removed.
  bool truncate = false;

  // Without `input`, whose tokens are checked against the vocabulary.
  SVC_FIELDS(EmbeddingRequest, (id, .required = true), (truncate))
};

// Documents to score against a query. Special tokens are added as the model asks; text that looks
// like one stays text.
struct RerankRequest {
  // Chosen by the caller; unique among all requests alive.
  GenerationId id = 0;
  std::string query;
  std::vector<std::string> documents;
  // A document with more tokens loses its end. Absent: no limit but the context.
  std::optional<std::uint32_t> max_document_tokens;
  // True: a document that is too long loses its end instead of being refused. The usage reports the
  // number of tokens removed for either reason.
  bool truncate = false;

  SVC_FIELDS(RerankRequest, (id, .required = true), (query, .required = true, .non_empty = true),
             (documents, .required = true, .non_empty = true), (max_document_tokens, .min = 1),
             (truncate))
};

}  // namespace svc
