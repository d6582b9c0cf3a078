// Public interface of the engine: one loaded model that serves many concurrent requests. The model
// decides the kind of engine.
//
//   Engine::Load ─► TextEngine      ── Submit ─► runner thread ─────────┬─► OutputSink
//               or  EmbeddingEngine ── Embed ──┬► embedder's thread ────┘   (at most once a step)
//               or  RankingEngine   ── Rerank ─┘
//
// Owner: the caller of Load. Close() or the destructor stops and joins the engine's thread; the
// destructor frees the model. Threads: any thread may call any method. The engine calls the sink on
// its own thread (runner or embedder). The sink must not block and may call back only Cancel,
// Pause, Resume and GrantCells.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/types/chat.h"
#include "engine/types/engine_stats.h"
#include "engine/types/load_options.h"
#include "engine/types/model_info.h"
#include "engine/types/output.h"
#include "engine/types/request.h"

namespace svc {

class EmbeddingEngine;
class LlamaModel;
class RankingEngine;
class TextEngine;

// What engines of all kinds have.
class Engine {
 public:
  // Loads the model on the calling thread (seconds to minutes) and starts the engine's thread.
  // Errors: kModelInvalid, kOutOfMemory, kCancelled, kEngineUnavailable (no CPU backend is loaded).
  static Result<std::unique_ptr<Engine>> Load(const LoadOptions& options, OutputSink sink);

  virtual ~Engine();

  // This engine by its kind; exactly one is not null.
  virtual TextEngine* text() { return nullptr; }
  virtual EmbeddingEngine* embedding() { return nullptr; }
  virtual RankingEngine* ranking() { return nullptr; }

  const ModelInfo& info() const { return info_; }

  // Returns the tokens of `text`. add_special: adds BOS/EOS as the model's metadata asks.
  // parse_special: text such as "<|im_end|>" becomes the control token. Thread: runs on the calling
  // thread.
  Result<std::vector<Token>> Tokenize(const std::string& text, bool add_special,
                                      bool parse_special) const;
  // Returns the bytes of the tokens; they may end inside a UTF-8 character. special: control tokens
  // are written as text.
  std::string Detokenize(const std::vector<Token>& tokens, bool special) const;
  // Returns the bytes of each token, those of control tokens too; they may be part of a UTF-8
  // character.
  std::vector<std::string> Pieces(const std::vector<Token>& tokens) const;

  // Cancels a request: a generation ends with kCancelled at the next step, an embedding request at
  // the next batch. Unknown ids are ignored.
  virtual void Cancel(GenerationId id) = 0;
  // Back-pressure for the whole engine. true: its thread starts no further step until Hold(false),
  // because the consumer has not yet read the output so far.
  virtual void Hold(bool on) = 0;

  EngineStats stats() const;

  // Ends every request (kCancelled), saves cached prefixes to disk (seconds at most), joins the
  // thread and frees the KV cache. Idempotent; blocks. The weights are freed by the destructor,
  // because another thread may still be tokenizing.
  virtual void Close() = 0;

 protected:
  Engine(std::unique_ptr<LlamaModel> model, ModelInfo info);
  const LlamaModel& model() const { return *model_; }
  // All figures but `operations`, which are those of the process.
  virtual EngineStats WorkerStats() const = 0;

 private:
  const std::unique_ptr<LlamaModel> model_;
  const ModelInfo info_;
};

// The prompt of a generation.
struct RenderedPrompt {
  std::string prompt;         // text of the chat as the template renders it, or a raw prompt's
  std::vector<Token> tokens;  // negative: a row of a picture or sound

  SVC_FIELDS(RenderedPrompt, (prompt), (tokens))
};

class TextEngine : public Engine {
 public:
  using Engine::Engine;
  TextEngine* text() final { return this; }

  // Returns the prompt that Submit would make of this request, on the calling thread. It may be
  // longer than the context and is not truncated. Error: kInvalidRequest.
  virtual Result<RenderedPrompt> Render(GenerationRequest request) = 0;

  // Renders and tokenizes (both on the calling thread) and queues. Returns the number of input
  // tokens. Errors: kInvalidRequest, kContextOverflow (the message names both numbers), kBusy (the
  // queue is full). After an error the sink receives nothing for this id.
  virtual Result<std::uint32_t> Submit(GenerationRequest request) = 0;
  // Pauses a generation: it keeps its KV-cache cells and takes no part in steps until Resume.
  virtual void Pause(GenerationId id) = 0;
  virtual void Resume(GenerationId id) = 0;

  // Answers a CellDemand: the KV cache may have `cells` cells, at most ModelInfo::context_length
  // and at least as many as it has. `refusal`: why these are fewer than the demand's `least`, in
  // words that follow "not enough memory for a prompt: ". Exactly one call for each demand.
  virtual void GrantCells(std::uint32_t cells, std::string refusal) = 0;

  // Changes the size limit of LoadOptions::prefix_folder at run time. 0: nothing more is written;
  // the caller deletes the existing files. No effect if the engine was loaded with prefix_bytes 0.
  virtual void SetPrefixBytes(std::uint64_t bytes) = 0;
};

class EmbeddingEngine : public Engine {
 public:
  using Engine::Engine;
  EmbeddingEngine* embedding() final { return this; }

  // Tokenizes (on the calling thread) and queues. Returns the number of input tokens. Errors:
  // kInvalidRequest, kContextOverflow (the message names both numbers), kBusy (the queue is full).
  // After an error the sink receives nothing for this id.
  virtual Result<std::uint32_t> Embed(EmbeddingRequest request) = 0;
};

class RankingEngine : public Engine {
 public:
  using Engine::Engine;
  RankingEngine* ranking() final { return this; }

  // As EmbeddingEngine::Embed: a score for each document, in a vector of one number.
  virtual Result<std::uint32_t> Rerank(RerankRequest request) = 0;
};

}  // namespace svc
