#include "binding/engine_object.h"

#include <algorithm>
#include <utility>

#include "binding/arguments.h"
#include "binding/convert.h"
#include "binding/task.h"

namespace svc::binding {
namespace {

// False if the option or all options are absent.
bool ReadOption(Napi::Value options, const char* name) {
  if (options.IsUndefined()) return false;
  bool value = false;
  ReadField(ReadObject(options, "options"), name,
            [&](Napi::Value field, const std::string& field_name) {
              value = ReadBoolean(field, field_name);
            });
  return value;
}

// Error for a request that the engine's kind does not serve.
Status Refusal(Engine& engine, const std::string& refused) {
  const char* kind = engine.text() != nullptr        ? "writes text"
                     : engine.embedding() != nullptr ? "makes embeddings"
                                                     : "ranks documents";
  return {StatusCode::kInvalidRequest, std::string("this model ") + kind + " and " + refused};
}

// Returns the engine by its kind. Error: kInvalidRequest, if its model is of another kind.
Result<TextEngine*> TextOf(Engine& engine) {
  if (engine.text() != nullptr) return engine.text();
  return Refusal(engine, "writes no text");
}

Result<EmbeddingEngine*> EmbeddingOf(Engine& engine) {
  if (engine.embedding() != nullptr) return engine.embedding();
  return Refusal(engine, "makes no embeddings");
}

Result<RankingEngine*> RankingOf(Engine& engine) {
  if (engine.ranking() != nullptr) return engine.ranking();
  return Refusal(engine, "ranks no documents");
}

}  // namespace

void CloseEngine(Napi::Env env, std::shared_ptr<Engine> engine,
                 std::function<void(Napi::Env)> then) {
  auto close = [engine = std::move(engine)] {
    engine->Close();
    return Status::Ok();
  };
  Task<Status>::Start(env, "svc:close", std::move(close),
                      [then = std::move(then)](Napi::Env js, const Status&) { then(js); });
}

Napi::FunctionReference EngineObject::Define(Napi::Env env) {
  return Napi::Persistent(
      DefineClass(env, "NativeEngine",
                  {
                      InstanceMethod<&EngineObject::Detokenize>("detokenize"),
                      InstanceMethod<&EngineObject::Encode>("encode"),
                      InstanceMethod<&EngineObject::Pieces>("pieces"),
                      InstanceMethod<&EngineObject::Render>("render"),
                      InstanceMethod<&EngineObject::Submit>("submit"),
                      InstanceMethod<&EngineObject::Embed>("embed"),
                      InstanceMethod<&EngineObject::Rerank>("rerank"),
                      InstanceMethod<&EngineObject::Cancel>("cancel"),
                      InstanceMethod<&EngineObject::SetPaused<true>>("pause"),
                      InstanceMethod<&EngineObject::SetPaused<false>>("resume"),
                      InstanceMethod<&EngineObject::Hold>("hold"),
                      InstanceMethod<&EngineObject::GrantCells>("grantCells"),
                      InstanceMethod<&EngineObject::SetPrefixBytes>("setPrefixBytes"),
                      InstanceMethod<&EngineObject::Stats>("stats"),
                      InstanceMethod<&EngineObject::Close>("close"),
                  }));
}

Napi::Object EngineObject::New(Napi::Env env, EngineParts parts) {
  Environment& environment = Environment::Of(env);
  environment.engine_parts = &parts;
  try {
    return environment.engine_class.New({});
  } catch (...) {
    environment.engine_parts = nullptr;
    throw;
  }
}

EngineObject::EngineObject(const Napi::CallbackInfo& info)
    : ObjectWrap(info), environment_(&Environment::Of(info.Env())) {
  const Napi::Env env = info.Env();
  EngineParts* parts = std::exchange(environment_->engine_parts, nullptr);
  if (parts == nullptr) throw InvalidRequest(env, "use load() to create an engine, not new");
  engine_ = std::move(parts->engine);
  channel_ = std::move(parts->channel);
  on_step_ = Napi::Weak(parts->on_step);
  environment_->engines.insert(this);
  channel_->Listen([this](Napi::Env js) { Deliver(js); });
  info.This().As<Napi::Object>().DefineProperties({
      Napi::PropertyDescriptor::Value("info", ToObject(env, engine_->info()), napi_enumerable),
      Napi::PropertyDescriptor::Value(Napi::Symbol::New(env, "onStep"), parts->on_step,
                                      napi_default),
  });
}

void EngineObject::Finalize(Napi::Env env) {
  if (channel_) channel_->Listen(nullptr);
  if (environment_ != nullptr) environment_->engines.erase(this);
  if (!engine_) return;
  CloseEngine(env, std::move(engine_), [channel = std::move(channel_)](Napi::Env) {});
}

void EngineObject::EnvironmentEnds() {
  environment_ = nullptr;
  if (engine_) engine_->Close();
  engine_.reset();
}

Engine& EngineObject::OpenEngine(Napi::Env env) const {
  if (!engine_)
    throw MakeError(env, Status(StatusCode::kEngineUnavailable, "the engine is closed"));
  return *engine_;
}

Napi::Value EngineObject::Detokenize(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const bool special = ReadOption(info[1], "special");
  const Engine& engine = OpenEngine(env);
  return Napi::String::New(
      env, engine.Detokenize(ReadTokens(info[0], engine.info().vocabulary), special));
}

Napi::Value EngineObject::Encode(const Napi::CallbackInfo& info) {
  return PromiseOfTask(info.Env(), "svc:encode", [&] {
    std::string text = ReadString(info[0], "text");
    const bool add_special = ReadOption(info[1], "addSpecial");
    const bool parse_special = ReadOption(info[1], "parseSpecial");
    OpenEngine(info.Env());  // reading the options runs the caller's getters, which may close it
    return [engine = engine_, text = std::move(text), add_special, parse_special] {
      return engine->Tokenize(text, add_special, parse_special);
    };
  });
}

Napi::Value EngineObject::Pieces(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Engine& engine = OpenEngine(env);
  const std::vector<std::string> pieces =
      engine.Pieces(ReadTokens(info[0], engine.info().vocabulary));
  auto array = Napi::Array::New(env, pieces.size());
  for (std::uint32_t i = 0; i < pieces.size(); ++i) array.Set(i, ToLatin1(env, pieces[i]));
  return array;
}

Napi::Value EngineObject::Render(const Napi::CallbackInfo& info) {
  return PromiseOfTask(info.Env(), "svc:render", [&] {
    const ModelInfo& model = OpenEngine(info.Env()).info();
    GenerationRequest request = ReadRequest(info[0], model.sampling, model.vocabulary);
    OpenEngine(info.Env());  // again: as in Begin
    return [engine = engine_, request = std::move(request)]() -> Result<RenderedPrompt> {
      SVC_ASSIGN_OR_RETURN(TextEngine* const text, TextOf(*engine));
      return text->Render(request);
    };
  });
}

Napi::Value EngineObject::Submit(const Napi::CallbackInfo& info) {
  const auto read = [&](const ModelInfo& model) {
    return ReadRequest(info[0], model.sampling, model.vocabulary);
  };
  return Begin(info.Env(), read, TextOf, &TextEngine::Submit);
}

Napi::Value EngineObject::Embed(const Napi::CallbackInfo& info) {
  const auto read = [&](const ModelInfo& model) {
    return ReadEmbeddingRequest(info[0], model.vocabulary);
  };
  return Begin(info.Env(), read, EmbeddingOf, &EmbeddingEngine::Embed);
}

Napi::Value EngineObject::Rerank(const Napi::CallbackInfo& info) {
  const auto read = [&](const ModelInfo&) { return ReadRerankRequest(info[0]); };
  return Begin(info.Env(), read, RankingOf, &RankingEngine::Rerank);
}

template <typename Read, typename KindOf, typename HandOver>
Napi::Value EngineObject::Begin(Napi::Env env, Read read, KindOf kind_of, HandOver hand_over) {
  return NewPromise(env, [&](const Napi::Promise::Deferred& promise) {
    auto request = read(OpenEngine(env).info());
    const GenerationId id = request.id;
    OpenEngine(env);  // again: reading the request runs the caller's getters, which may close it
    if (!generations_.try_emplace(id).second) {
      throw InvalidRequest(env, "id " + std::to_string(id) + " is in use");
    }
    UpdateHolds();
    Task<Result<std::uint32_t>>::Start(
        env, "svc:submit",
        [kind_of, hand_over, engine = engine_,
         request = std::move(request)]() mutable -> Result<std::uint32_t> {
          const auto kind = kind_of(*engine);
          return kind.ok() ? (kind.value()->*hand_over)(std::move(request)) : kind.status();
        },
        [this, id, promise](Napi::Env js, const Result<std::uint32_t>& input_tokens) {
          OnSubmitted(js, id, promise, input_tokens);
        });
  });
}

void EngineObject::OnSubmitted(Napi::Env env, GenerationId id,
                               const Napi::Promise::Deferred& promise,
                               const Result<std::uint32_t>& input_tokens) {
  if (!input_tokens.ok()) {
    promise.Reject(MakeError(env, input_tokens.status()).Value());
    generations_.erase(id);
    UpdateHolds();
    return;
  }
  Generation& generation = generations_[id];
  generation.accepted = true;
  if (engine_ && generation.cancelled) engine_->Cancel(id);
  if (TextEngine* text = OpenText(); text != nullptr && generation.paused) text->Pause(id);
  channel_->Rouse();
  promise.Resolve(Napi::Number::New(env, input_tokens.value()));
}

void EngineObject::Cancel(const Napi::CallbackInfo& info) {
  const auto id = ReadInteger<GenerationId>(info[0], "id");
  const auto generation = generations_.find(id);
  if (!engine_ || generation == generations_.end()) return;
  generation->second.cancelled = true;
  engine_->Cancel(id);
}

template <bool kPaused>
void EngineObject::SetPaused(const Napi::CallbackInfo& info) {
  const auto id = ReadInteger<GenerationId>(info[0], "id");
  const auto generation = generations_.find(id);
  TextEngine* text = OpenText();
  if (text == nullptr || generation == generations_.end()) return;
  generation->second.paused = kPaused;
  kPaused ? text->Pause(id) : text->Resume(id);
}

void EngineObject::GrantCells(const Napi::CallbackInfo& info) {
  const auto cells = ReadInteger<std::uint32_t>(info[0], "cells", 0, kMaxContextLength);
  std::string refusal = ReadString(info[1], "refusal");
  if (TextEngine* text = OpenText()) text->GrantCells(cells, std::move(refusal));
}

void EngineObject::SetPrefixBytes(const Napi::CallbackInfo& info) {
  const std::int64_t bytes = ReadWholeNumber(info[0], "bytes", 0, std::int64_t{1} << 50U);
  if (TextEngine* text = OpenText()) text->SetPrefixBytes(static_cast<std::uint64_t>(bytes));
}

void EngineObject::Hold(const Napi::CallbackInfo& info) {
  const bool on = ReadBoolean(info[0], "on");
  if (engine_) engine_->Hold(on);
}

Napi::Value EngineObject::Stats(const Napi::CallbackInfo& info) {
  return ToObject(info.Env(), OpenEngine(info.Env()).stats());
}

Napi::Value EngineObject::Close(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!close_promise_.IsEmpty()) return close_promise_.Value();
  const auto promise = Napi::Promise::Deferred::New(env);
  close_promise_ = Napi::Persistent(promise.Promise().As<Napi::Object>());
  if (!engine_) {  // the environment has closed it
    promise.Resolve(env.Undefined());
    return promise.Promise();
  }
  Ref();
  CloseEngine(env, std::move(engine_), [this, promise](Napi::Env js) {
    closing_ = promise;
    Deliver(js);  // the last generations' ends
    FinishClosing();
    Unref();
  });
  return promise.Promise();
}

void EngineObject::Deliver(Napi::Env env) {
  const Napi::HandleScope scope(env);
  // Keeps this object alive until the function returns.
  [[maybe_unused]] const Napi::Object self = Value();
  const std::vector<GenerationOutput> outputs = channel_->Take([this](GenerationId id) {
    const auto generation = generations_.find(id);
    return generation == generations_.end() || generation->second.accepted;
  });
  if (outputs.empty()) return;
  const auto list = Napi::Array::New(env, outputs.size());
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    list.Set(i, ToObject(env, outputs[i]));
    if (outputs[i].done) generations_.erase(outputs[i].id);
  }
  UpdateHolds();
  CallListener(on_step_.Value(), {list});
}

void EngineObject::UpdateHolds() {
  const bool hold = !generations_.empty();
  if (hold == held_) return;
  held_ = hold;
  channel_->KeepProcessAlive(hold);
  if (hold) {
    Ref();
  } else {
    Unref();
    FinishClosing();
  }
}

void EngineObject::FinishClosing() {
  if (!closing_ || !generations_.empty()) return;
  closing_->Resolve(closing_->Env().Undefined());
  closing_.reset();
}

}  // namespace svc::binding
