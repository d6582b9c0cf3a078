// The engine's whole public face: one loaded model, answering any number of generations at once; or
// of requests for embeddings, if that is what the model was trained for.
//
//   Engine::Load  ──►  Engine  ── Submit ──►  runner thread ── OutputSink (at most once a step)
//                              ── Embed ───►  embedder's thread ──┘
//
// Owner: whoever called Load; Close() (or the destructor) stops the runner thread, joins it and
// frees the model. Threads: every method may be called from any thread. The sink is called on the
// runner thread, must not block and must not call back into the engine except Cancel/Pause/Resume.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/request.h"

namespace svc {

class Engine {
 public:
  // Loads the model on the calling thread (seconds to minutes) and starts the runner.
  // Errors: kModelInvalid, kOutOfMemory, kCancelled, kEngineUnavailable (no CPU backend was
  // loaded).
  static Result<std::unique_ptr<Engine>> Load(const LoadOptions& options, OutputSink sink);

  virtual ~Engine() = default;

  virtual const ModelInfo& info() const = 0;

  // add_special: BOS/EOS as the model asks. parse_special: "<|im_end|>" becomes the control token.
  virtual Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special,
                                              bool parse_special) const = 0;
  // The bytes of the tokens; may end inside a UTF-8 character.
  virtual std::string Detokenize(const std::vector<Token>& tokens, bool special) const = 0;
  // The prompt text for a chat, ready for the assistant's turn. kInvalidRequest if the template
  // refuses it.
  virtual Result<std::string> RenderChat(const std::vector<ChatMessage>& messages) const = 0;

  // Renders, tokenises (both on the calling thread) and queues. Returns the number of input tokens.
  // Errors: kInvalidRequest, kContextOverflow (message names both numbers), kBusy (queue full).
  // After an error the sink hears nothing of this id.
  virtual Result<std::uint32_t> Submit(GenerationRequest request) = 0;
  // Tokenises (on the calling thread) and queues. Returns the number of input tokens. Errors:
  // kInvalidRequest (also: the model makes no embeddings), kContextOverflow (message names both
  // numbers), kBusy (queue full). After an error the sink hears nothing of this id.
  virtual Result<std::uint32_t> Embed(EmbeddingRequest request) = 0;
  // The generation ends with kCancelled at the next chunk boundary, embeddings at the next batch.
  // Unknown ids are ignored.
  virtual void Cancel(GenerationId id) = 0;
  // A paused generation keeps its cells and takes no part in a step until resumed. Embeddings,
  // whose results have a bounded size, go on.
  virtual void Pause(GenerationId id) = 0;
  virtual void Resume(GenerationId id) = 0;
  // Holds the thread between steps while nobody reads what it produced.
  virtual void Hold(bool on) = 0;

  // Bounds the files in LoadOptions::prefix_folder anew. 0: no more are written; the caller deletes
  // those that are there. Without effect where the engine was loaded with 0.
  virtual void SetPrefixBytes(std::uint64_t bytes) = 0;

  virtual EngineStats stats() const = 0;

  // Ends every generation (kCancelled), brings what is worth keeping to the disk (seconds at most),
  // joins the thread, frees the cache. Idempotent; blocks. The weights go with the engine itself:
  // somebody may still be tokenizing.
  virtual void Close() = 0;
};

}  // namespace svc
