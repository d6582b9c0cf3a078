// Public interface of the engine: one loaded model that serves many concurrent generations or, if
// it is an embedding model, many concurrent embedding requests.
//
//   Engine::Load  ──►  Engine  ── Submit ──►  runner thread ─────┬─► OutputSink
//                              ── Embed ───►  embedder's thread ─┘   (at most once a step)
//
// Owner: the caller of Load. Close() or the destructor stops and joins the engine's thread; the
// destructor frees the model. Threads: any thread may call any method. The engine calls the sink on
// its own thread (runner or embedder). The sink must not block and may call back only Cancel, Pause
// and Resume.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/request.h"

namespace svc {

class Engine {
 public:
  // Loads the model on the calling thread (seconds to minutes) and starts the engine's thread.
  // Errors: kModelInvalid, kOutOfMemory, kCancelled, kEngineUnavailable (no CPU backend is loaded).
  static Result<std::unique_ptr<Engine>> Load(const LoadOptions& options, OutputSink sink);

  virtual ~Engine() = default;

  virtual const ModelInfo& info() const = 0;

  // Returns the tokens of `text`. add_special: adds BOS/EOS as the model's metadata asks.
  // parse_special: text such as "<|im_end|>" becomes the control token. Thread: runs on the calling
  // thread.
  virtual Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special,
                                              bool parse_special) const = 0;
  // Returns the bytes of the tokens; they may end inside a UTF-8 character. special: control tokens
  // are written as text.
  virtual std::string Detokenize(const std::vector<Token>& tokens, bool special) const = 0;
  // Renders a chat with the model's template, ready for the assistant's turn. Error:
  // kInvalidRequest (the template refuses the chat).
  virtual Result<std::string> RenderChat(const std::vector<ChatMessage>& messages) const = 0;

  // Renders and tokenizes (both on the calling thread) and queues. Returns the number of input
  // tokens. Errors: kInvalidRequest, kContextOverflow (the message names both numbers), kBusy (the
  // queue is full). After an error the sink receives nothing for this id.
  virtual Result<std::uint32_t> Submit(GenerationRequest request) = 0;
  // Tokenizes (on the calling thread) and queues. Returns the number of input tokens. Errors:
  // kInvalidRequest (also if this is no embedding model), kContextOverflow (the message names both
  // numbers), kBusy (the queue is full). After an error the sink receives nothing for this id.
  virtual Result<std::uint32_t> Embed(EmbeddingRequest request) = 0;
  // Cancels a request: a generation ends with kCancelled at the next step, an embedding request at
  // the next batch. Unknown ids are ignored.
  virtual void Cancel(GenerationId id) = 0;
  // Pauses a generation: it keeps its KV-cache cells and takes no part in steps until Resume.
  // Embedding requests ignore both, because their output is bounded.
  virtual void Pause(GenerationId id) = 0;
  virtual void Resume(GenerationId id) = 0;
  // Back-pressure for the whole engine. true: its thread starts no further step until Hold(false),
  // because the consumer has not yet read the output so far.
  virtual void Hold(bool on) = 0;

  // Changes the size limit of LoadOptions::prefix_folder at run time. 0: nothing more is written;
  // the caller deletes the existing files. No effect if the engine was loaded with prefix_bytes 0.
  virtual void SetPrefixBytes(std::uint64_t bytes) = 0;

  virtual EngineStats stats() const = 0;

  // Ends every generation (kCancelled), saves cached prefixes to disk (seconds at most), joins the
  // thread and frees the KV cache. Idempotent; blocks. The weights are freed by the destructor,
  // because another thread may still be tokenizing.
  virtual void Close() = 0;
};

}  // namespace svc
