// Requests, outputs, options and statistics of the engine: plain values that all its parts share.
//
// Those that cross to JavaScript list their fields (field.h). Their names are the protocol's
// (src/protocol/generate.ts, records.ts), so nothing between an HTTP body and these structs renames
// a field.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/adapters.h"
#include "engine/base/field.h"
#include "engine/base/status.h"

namespace svc {

using Token = std::int32_t;
using GenerationId = std::uint32_t;

// Element type of the KV cache. kQ8_0 takes about half the memory of kF16 at little loss of
// quality. Some model shapes do not support it (kModelInvalid).
enum class CacheType { kF16, kQ8_0 };
constexpr auto Names(CacheType) { return std::array{"f16", "q8_0"}; }

// Limits that libllama does not check: a larger value ends the process.
inline constexpr std::uint32_t kMaxContextLength = 1U << 24U;  // no model is trained for more
inline constexpr int kMaxThreads = 512;                        // GGML_MAX_N_THREADS

struct LoadOptions {
  std::string path;
  // Longest context of a request, in tokens, and most cells of the unified KV cache, which all
  // sequences share. 0: the model's trained context length, at most kDefaultContextLength.
  std::uint32_t context_length = 0;
  // Cells to begin with; the cache grows with its requests (growth.h). 0: all of context_length.
  std::uint32_t kv_cells = 0;
  // Compute threads. 0: one for each physical core that this process may run on, fewer for a very
  // small model.
  int threads = 0;
  // Compute threads for long prompts (the prefill lane) and for embeddings. 0: as `threads`.
  int prompt_threads = 0;
  // Layers on the GPU. Negative: all, if there is a GPU.
  int gpu_layers = -1;
  CacheType cache_type = CacheType::kF16;
  // Size of a sequence's state, for models whose sequences cannot share cells: a fixed part and a
  // part for each token, in bytes, as in MemoryEstimates. Both 0: unknown, and the copies of states
  // may be as large as the cache.
  std::uint64_t state_fixed_bytes = 0;
  std::uint64_t state_token_bytes = 0;
  // Sequences in the cache at the same time, at most 255; further generations wait. The prefix
  // cache uses the remaining sequence ids.
  std::uint32_t max_sequences = 64;
  // Folder of the prefix cache's disk tier, shared with other models; empty: no disk tier. Created
  // with access for its owner only, if it does not exist. A prefix that cannot be written is
  // dropped.
  std::string prefix_folder;
  // Name of this model in the folder's file names: letters and digits.
  std::string prefix_model;
  std::uint64_t prefix_bytes = 0;  // limit of the folder, all models together
  // Secret key for the authentication codes of these files and the hashes of share names. Absent: a
  // random key, so that no later engine can read these files.
  std::optional<std::array<std::uint64_t, 2>> prefix_key;
  // Draft model for speculative decoding (drafter.h); empty: none. A draft model that cannot be
  // used is no error: ModelInfo::draft_refusal gives the reason.
  std::string draft_path;
  // Projector, with which the model sees or hears (llama/media/projector.h); empty: none. One that
  // cannot be used is no error: ModelInfo::projector_refusal gives the reason.
  std::string projector_path;
  // LoRA adapters that requests may ask for. One that cannot be used is no error:
  // ModelInfo::adapters gives the reason.
  std::vector<AdapterFile> adapters;
  // Called on the loading thread with the progress (0..1). Returns false to cancel the load
  // (kCancelled).
  std::function<bool(float fraction)> on_progress;

  // Without `path`, `prefix_key` and `on_progress`, which need more than a type.
  static constexpr auto Fields() {
    using Self = LoadOptions;
    return std::make_tuple(
        SVC_FIELD(context_length, .max = kMaxContextLength),
        SVC_FIELD(kv_cells, .max = kMaxContextLength), SVC_FIELD(threads, .max = kMaxThreads),
        SVC_FIELD(prompt_threads, .max = kMaxThreads),
        SVC_FIELD(gpu_layers, .min = std::numeric_limits<int>::min()), SVC_FIELD(cache_type),
        SVC_FIELD(state_fixed_bytes), SVC_FIELD(state_token_bytes), SVC_FIELD(max_sequences),
        SVC_FIELD(prefix_folder), SVC_FIELD(prefix_model), SVC_FIELD(prefix_bytes),
        SVC_FIELD(draft_path), SVC_FIELD(projector_path), SVC_FIELD(adapters));
  }
};

inline constexpr std::uint32_t kDefaultContextLength = 8192;

// Defaults are llama.cpp's. So is the order: logit bias, penalties, DRY, top-k, typical, top-p,
// min-p, XTC, temperature, draw. With Mirostat: logit bias, penalties, DRY, temperature, Mirostat.
struct SamplingParams {
  float temperature = 0.80F;  // 0: greedy
  // The temperature varies by this much around `temperature`, with the entropy of the candidates;
  // 0: not at all.
  float dynatemp_range = 0.0F;
  float dynatemp_exponent = 1.0F;  // how the entropy maps to the temperature
  int top_k = 40;                  // 0: all
  float typical_p = 1.0F;          // 1: off
  float top_p = 0.95F;             // 1: off
  float min_p = 0.05F;             // 0: off
  // Probability that all candidates above the threshold but the least likely are left out.
  float xtc_probability = 0.0F;  // 0: off
  float xtc_threshold = 0.1F;    // above 0.5: off
  int mirostat = 0;              // 0: off; 1 or 2: version
  float mirostat_tau = 5.0F;     // target surprise, in bits
  float mirostat_eta = 0.1F;     // learning rate
  int repeat_last_n = 64;        // tokens that the three penalties look back at
  float repeat_penalty = 1.0F;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  // DRY: a token that extends a repetition of `length` tokens loses
  // multiplier * base ^ (length - allowed length) of its logit.
  float dry_multiplier = 0.0F;  // 0: off
  float dry_base = 1.75F;
  int dry_allowed_length = 2;   // tokens
  int dry_penalty_last_n = 64;  // tokens that are searched for repetitions
  // A repetition does not go across these texts.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::optional<std::uint32_t> seed;  // absent: drawn from the system's entropy
  std::vector<std::pair<Token, float>> logit_bias;

  static constexpr auto Fields() {
    using Self = SamplingParams;
    return std::make_tuple(
        SVC_FIELD(temperature), SVC_FIELD(dynatemp_range), SVC_FIELD(dynatemp_exponent),
        SVC_FIELD(top_k), SVC_FIELD(typical_p), SVC_FIELD(top_p), SVC_FIELD(min_p),
        SVC_FIELD(xtc_probability), SVC_FIELD(xtc_threshold), SVC_FIELD(mirostat),
        SVC_FIELD(mirostat_tau), SVC_FIELD(mirostat_eta), SVC_FIELD(repeat_last_n),
        SVC_FIELD(repeat_penalty), SVC_FIELD(frequency_penalty), SVC_FIELD(presence_penalty),
        SVC_FIELD(dry_multiplier), SVC_FIELD(dry_base), SVC_FIELD(dry_allowed_length),
        SVC_FIELD(dry_penalty_last_n), SVC_FIELD(dry_sequence_breakers), SVC_FIELD(seed),
        SVC_FIELD(logit_bias));
  }
};

struct ModelInfo {
  std::string description;   // "llama 1B Q4_0"
  std::string architecture;  // "llama"
  std::string quantization;  // "Q4_0"
  std::uint64_t parameters = 0;
  std::uint64_t size_bytes = 0;  // all tensors
  std::uint32_t trained_context_length = 0;
  std::uint32_t context_length = 0;    // longest context of a request, or longest input to embed
  std::uint32_t vocabulary = 0;        // tokens
  std::uint32_t embedding_length = 0;  // floats in a hidden state, or in an embedding
  std::uint32_t layers = 0;
  int threads = 0;
  bool has_chat_template = false;
  bool calls_tools = false;       // its template has a form for tool calls
  bool thinks = false;            // its template has tags for reasoning
  bool makes_embeddings = false;  // or scores (`ranks`); if so, it generates no text
  bool ranks = false;             // it scores documents, and makes no embeddings of its own
  // Sampling defaults for requests that set none: the file's `general.sampling.*`, else
  // llama.cpp's.
  SamplingParams sampling;
  // Reason why the requested draft model is not used, worded to follow "the draft model". Empty: it
  // is used, or none was requested.
  std::string draft_refusal;
  bool sees = false;   // its projector takes pictures
  bool hears = false;  // its projector takes sounds
  // Reason why the requested projector is not used, worded to follow "the projector". Empty: it is
  // used, or none was requested.
  std::string projector_refusal;
  std::vector<AdapterInfo> adapters;  // those of the load, in the same order
  std::string device;                 // where the layers are: "CPU", or the GPU's name
  std::vector<std::pair<std::string, std::string>> metadata;  // scalar GGUF keys, as text

  // Without `sampling` and `metadata`.
  static constexpr auto Fields() {
    using Self = ModelInfo;
    return std::make_tuple(
        SVC_FIELD(description), SVC_FIELD(architecture), SVC_FIELD(quantization),
        SVC_FIELD(parameters), SVC_FIELD(size_bytes), SVC_FIELD(trained_context_length),
        SVC_FIELD(context_length), SVC_FIELD(vocabulary), SVC_FIELD(embedding_length),
        SVC_FIELD(layers), SVC_FIELD(threads), SVC_FIELD(has_chat_template), SVC_FIELD(calls_tools),
        SVC_FIELD(thinks), SVC_FIELD(makes_embeddings), SVC_FIELD(ranks),
        SVC_FIELD(draft_refusal, .nullable = true), SVC_FIELD(sees), SVC_FIELD(hears),
        SVC_FIELD(projector_refusal, .nullable = true), SVC_FIELD(adapters), SVC_FIELD(device));
  }
};

// A tool call in an assistant's message.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object

  static constexpr auto Fields() {
    using Self = ToolCall;
    return std::make_tuple(SVC_FIELD(id), SVC_FIELD(name, .required = true),
                           SVC_FIELD(arguments, .required = true));
  }
};

enum class MediaType { kImage, kAudio };
constexpr auto Names(MediaType) { return std::array{"image", "audio"}; }

// A picture or sound in a message.
struct Media {
  MediaType type = MediaType::kImage;
  std::string data;        // the file's bytes as base64
  std::uint32_t at = 0;    // where it stands in ChatMessage::content, in bytes
  std::uint32_t part = 0;  // its index in the content that the client sent, for errors
  // What stands for it in the prompt; set by the engine.
  std::vector<Token> tokens = {};

  static constexpr auto Fields() {
    using Self = Media;
    return std::make_tuple(SVC_FIELD(type, .required = true), SVC_FIELD(data, .required = true),
                           SVC_FIELD(at, .required = true), SVC_FIELD(part, .required = true));
  }
};

struct ChatMessage {
  std::string role;
  std::string content;
  std::string reasoning = {};             // assistant only
  std::vector<ToolCall> tool_calls = {};  // assistant only
  std::string tool_call_id = {};          // tool only: the call that this message answers
  std::string tool_name = {};             // tool only: the tool that was called
  std::vector<Media> media = {};          // in the order in which they stand in `content`

  static constexpr auto Fields() {
    using Self = ChatMessage;
    return std::make_tuple(SVC_FIELD(role, .required = true), SVC_FIELD(content, .required = true),
                           SVC_FIELD(reasoning), SVC_FIELD(tool_calls), SVC_FIELD(tool_call_id),
                           SVC_FIELD(tool_name), SVC_FIELD(media));
  }
};

// A tool that the model may call.
// How the value of one argument may be written. Some formats write strings bare: without quotes and
// escapes. The rules are in Tool::grammar.
struct ToolArgument {
  std::string name;
  bool required = false;
  std::string json;       // rule of the value as JSON
  bool any_text = false;  // any bare text is a valid string
  // Otherwise, rule of the strings as bare text without '<'. Empty: there are none, or they cannot
  // be enforced.
  std::string text;
  std::string other;              // rule of the values that are no strings, as JSON; empty: none
  bool text_may_be_json = false;  // a bare text that is JSON of one of the other types is valid
  bool scalar = false;            // no value is a string, an object or a list

  static constexpr auto Fields() {
    using Self = ToolArgument;
    return std::make_tuple(SVC_FIELD(name, .required = true), SVC_FIELD(required),
                           SVC_FIELD(json, .required = true), SVC_FIELD(any_text), SVC_FIELD(text),
                           SVC_FIELD(other), SVC_FIELD(text_may_be_json), SVC_FIELD(scalar));
  }
};

struct Tool {
  std::string name;
  std::string description;
  std::string parameters;  // JSON Schema of the arguments
  // Grammar of the arguments as one JSON object, as strict as the schema: GBNF rules of which the
  // first is the root. Rule names are unique in the request. Empty: any JSON object.
  std::string grammar;
  // The same as an object in Gemma 4's notation. Empty: the schema cannot be enforced in it.
  std::string tagged_grammar;
  // The arguments each on its own, in their order. Absent: the schema is no list of names.
  std::optional<std::vector<ToolArgument>> arguments;
  bool strict = false;  // a format in which the schema cannot be enforced is an error

  static constexpr auto Fields() {
    using Self = Tool;
    return std::make_tuple(SVC_FIELD(name, .required = true, .non_empty = true),
                           SVC_FIELD(description), SVC_FIELD(parameters, .required = true),
                           SVC_FIELD(grammar), SVC_FIELD(tagged_grammar), SVC_FIELD(arguments),
                           SVC_FIELD(strict));
  }
};

// kRequired: the answer is one or more calls. kNone: the prompt lists the tools, but none is
// called.
enum class ToolChoice { kAuto, kNone, kRequired };
constexpr auto Names(ToolChoice) { return std::array{"auto", "none", "required"}; }

// How much the model may think before it answers. kDefault: as its template has it. kNone: not at
// all.
enum class ReasoningEffort { kDefault, kNone, kMinimal, kLow, kMedium, kHigh, kXhigh };
constexpr auto Names(ReasoningEffort) {
  return std::array{"default", "none", "minimal", "low", "medium", "high", "xhigh"};
}

inline constexpr std::uint32_t kMaxReasoningTokens = 1U << 24U;

// How a chat is rendered and its answer read, besides its messages.
struct ChatOptions {
  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;            // the one tool to call; the choice is then kRequired
  bool parallel_tool_calls = true;  // false: at most one call
  ReasoningEffort reasoning_effort = ReasoningEffort::kDefault;
  // Most tokens of reasoning; then the template's end tag is forced. Absent: no limit.
  std::optional<std::uint32_t> reasoning_budget_tokens;
  // Variables of the template: names, and values as JSON.
  std::vector<std::pair<std::string, std::string>> template_variables;
  // True: the last message, which is the assistant's, is continued.
  bool continue_last = false;

  static constexpr auto Fields() {
    using Self = ChatOptions;
    return std::make_tuple(SVC_FIELD(tools), SVC_FIELD(tool_choice), SVC_FIELD(tool_name),
                           SVC_FIELD(parallel_tool_calls), SVC_FIELD(reasoning_effort),
                           SVC_FIELD(reasoning_budget_tokens, .max = kMaxReasoningTokens),
                           SVC_FIELD(template_variables), SVC_FIELD(continue_last));
  }
};

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

  static constexpr auto Fields() {
    using Self = InfillFile;
    return std::make_tuple(SVC_FIELD(filename, .required = true),
                           SVC_FIELD(text, .required = true));
  }
};

// A gap to fill in: the texts around it.
struct Infill {
  std::string prefix;
  std::string suffix;
  std::vector<InfillFile> extra;

  static constexpr auto Fields() {
    using Self = Infill;
    return std::make_tuple(SVC_FIELD(prefix, .required = true), SVC_FIELD(suffix, .required = true),
                           SVC_FIELD(extra));
  }
};

// An answer that another request can continue if this one is cut off: its outputs list their
// tokens, and the other request gets all of them. The samplers see each of these tokens again, so
// that their state, the random numbers included, is what it was.
struct Continuation {
  std::uint32_t seed = 0;     // of the sampler, unless the request sets one; the same in both
  std::vector<Token> tokens;  // first tokens of the answer; the logits do not matter there

  static constexpr auto Fields() {
    using Self = Continuation;
    return std::make_tuple(SVC_FIELD(seed, .required = true), SVC_FIELD(tokens));
  }
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

  static constexpr auto Fields() {
    using Self = GenerationRequest;
    return std::make_tuple(
        SVC_FIELD(id, .required = true), SVC_FIELD(messages), SVC_FIELD(chat), SVC_FIELD(prompt),
        SVC_FIELD(prompt_tokens), SVC_FIELD(infill), SVC_FIELD(continuation), SVC_FIELD(max_tokens),
        SVC_FIELD(truncate), SVC_FIELD(sampling), SVC_FIELD(lora), SVC_FIELD(stop),
        SVC_FIELD(repetition_guard), SVC_FIELD(priority), SVC_FIELD(reuse_prefix), SVC_FIELD(share),
        SVC_FIELD(own_prefixes), SVC_FIELD(store), SVC_FIELD(grammar, .non_empty = true),
        SVC_FIELD(logprobs, .max = kMaxLogprobs));
  }
};

struct TokenLogprob {
  std::string bytes;  // may end inside a UTF-8 character; the name of a control token
  float logprob = 0;  // natural; from the raw logits, before biases, penalties and samplers
};
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first
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
  static constexpr auto Fields() {
    using Self = EmbeddingRequest;
    return std::make_tuple(SVC_FIELD(id, .required = true), SVC_FIELD(truncate));
  }
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

  static constexpr auto Fields() {
    using Self = RerankRequest;
    return std::make_tuple(SVC_FIELD(id, .required = true),
                           SVC_FIELD(query, .required = true, .non_empty = true),
                           SVC_FIELD(documents, .required = true, .non_empty = true),
                           SVC_FIELD(max_document_tokens, .min = 1), SVC_FIELD(truncate));
  }
};

enum class FinishReason { kStop, kLength, kToolCalls, kCancelled };
constexpr auto Names(FinishReason) {
  return std::array{"stop", "length", "tool_calls", "cancelled"};
}

struct GenerationUsage {
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;  // from the prefix cache and sent by this share before
  // Tokens removed by truncation; not part of input_tokens. Absent: the request did not allow
  // truncation.
  std::optional<std::uint32_t> truncated_tokens;

  static constexpr auto Fields() {
    using Self = GenerationUsage;
    return std::make_tuple(SVC_FIELD(input_tokens), SVC_FIELD(output_tokens),
                           SVC_FIELD(cached_tokens),
                           SVC_FIELD(truncated_tokens, .omit_absent = true));
  }
};

// An answer that repeats itself (repetition_guard.h).
struct Repetition {
  std::uint32_t period_tokens = 0;    // length of the cycle
  std::uint32_t repeated_tokens = 0;  // length of all its repetitions together
  bool stopped = false;               // the answer was ended for it

  static constexpr auto Fields() {
    using Self = Repetition;
    return std::make_tuple(SVC_FIELD(period_tokens), SVC_FIELD(repeated_tokens),
                           SVC_FIELD(stopped));
  }
};

// Milliseconds since Submit. Negative: has not happened.
struct GenerationTimings {
  double started_ms = -1;  // the runner admitted it
  double first_token_ms = -1;
  double finished_ms = -1;

  static constexpr auto Fields() {
    using Self = GenerationTimings;
    return std::make_tuple(SVC_FIELD(started_ms, .nullable = true),
                           SVC_FIELD(first_token_ms, .nullable = true), SVC_FIELD(finished_ms));
  }
};

// Number of KV-cache cells that a generation needs to go on.
struct CellDemand {
  std::uint32_t least = 0;   // for its next token
  std::uint32_t wanted = 0;  // for its answer, as far as can be expected

  static constexpr auto Fields() {
    using Self = CellDemand;
    return std::make_tuple(SVC_FIELD(least), SVC_FIELD(wanted));
  }
};

// Part of a tool call. The first part of an index has the name, and the id if the model writes one;
// the arguments of all parts are joined.
struct ToolCallPart {
  std::uint32_t index = 0;
  std::string id;
  std::string name;
  std::string arguments;

  static constexpr auto Fields() {
    using Self = ToolCallPart;
    return std::make_tuple(SVC_FIELD(index), SVC_FIELD(id), SVC_FIELD(name), SVC_FIELD(arguments));
  }
};

// Output of one generation, or of one request for embeddings or scores, since the last delivery.
struct GenerationOutput {
  GenerationId id = 0;
  std::string text;  // whole UTF-8 characters, no part of a stop string
  std::string reasoning;
  std::vector<ToolCallPart> tool_calls;
  // Vectors of the inputs that follow those already delivered, concatenated. Each has Euclidean
  // length 1; of a model that ranks, each is one number, the score of a document.
  std::vector<float> embeddings;
  // For the tokens that begin in `text`, if requested.
  std::vector<TokenLogprobs> logprobs;
  // Only with a Continuation: the tokens since the last output. All content so far is of these and
  // of earlier ones.
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

// Content of one step, and its predicted and measured time.
struct StepStats {
  std::uint32_t rows = 0;         // padding rows included
  std::uint32_t prompt_rows = 0;  // part of `rows`
  double predicted_ms = 0;        // 0: the cost model has no measurement
  double spent_ms = 0;

  static constexpr auto Fields() {
    using Self = StepStats;
    return std::make_tuple(SVC_FIELD(rows), SVC_FIELD(prompt_rows), SVC_FIELD(predicted_ms),
                           SVC_FIELD(spent_ms));
  }
};

// Counters start when the model is loaded.
struct EngineStats {
  std::uint32_t active = 0;           // generations in the cache
  std::uint32_t waiting = 0;          // generations submitted, not yet in the cache
  std::uint32_t kv_cells_used = 0;    // by active generations
  std::uint32_t kv_cells_cached = 0;  // by cached prefixes; can be evicted
  std::uint32_t kv_cells_total = 0;
  std::uint32_t kv_tokens_swapped = 0;  // tokens of cached prefixes swapped out of the cells
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t prompt_tokens = 0;  // computed prompt tokens
  std::uint64_t cached_tokens = 0;  // prompt tokens from the prefix cache
  std::uint64_t generated_tokens = 0;
  std::uint64_t drafted_tokens = 0;   // draft tokens computed
  std::uint64_t accepted_tokens = 0;  // draft tokens accepted
  std::uint64_t preemptions = 0;
  std::uint64_t evicted_cells = 0;
  double predicted_ms = 0;  // sum over all steps; so is spent_ms
  double spent_ms = 0;
  StepStats last_step;
  std::uint32_t threads = 0;     // compute threads; fewer while other programs keep the cores busy
  double tokens_per_second = 0;  // generated, over the last few seconds of work; 0: idle
  double step_age_ms = 0;        // age of the running step; 0: none runs

  static constexpr auto Fields() {
    using Self = EngineStats;
    return std::make_tuple(SVC_FIELD(active), SVC_FIELD(waiting), SVC_FIELD(kv_cells_used),
                           SVC_FIELD(kv_cells_cached), SVC_FIELD(kv_cells_total),
                           SVC_FIELD(kv_tokens_swapped), SVC_FIELD(last_step),
                           SVC_FIELD(tokens_per_second), SVC_FIELD(step_age_ms));
  }
  // `steps` of the health record.
  static constexpr auto StepFields() {
    using Self = EngineStats;
    return std::make_tuple(Field{"count", &Self::steps}, SVC_FIELD(rows), SVC_FIELD(prompt_tokens),
                           SVC_FIELD(cached_tokens), SVC_FIELD(generated_tokens),
                           SVC_FIELD(drafted_tokens), SVC_FIELD(accepted_tokens),
                           SVC_FIELD(preemptions), SVC_FIELD(evicted_cells),
                           SVC_FIELD(predicted_ms), SVC_FIELD(spent_ms), SVC_FIELD(threads));
  }
};

}  // namespace svc
