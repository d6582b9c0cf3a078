#include "binding/load.h"

#include <exception>
#include <system_error>
#include <utility>

#include "binding/arguments.h"
#include "binding/convert.h"
#include "binding/engine_object.h"
#include "binding/errors.h"

namespace svc::binding {

Napi::Value Load(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  LoadOptions options = ReadLoadOptions(info[0], info[1]);
  const Napi::Function on_progress = ReadFunction(info[2], "onProgress");
  const Napi::Function on_step = ReadFunction(info[3], "onStep");
  Environment& environment = Environment::Of(env);
  if (environment.closing()) {
    throw MakeError(env, Status(StatusCode::kEngineUnavailable, "the process is ending"));
  }
  std::unique_ptr<LoadJob> job;
  try {
    job = std::make_unique<LoadJob>(environment, env, std::move(options), on_progress, on_step);
  } catch (const std::system_error& error) {
    throw MakeError(env, Status(StatusCode::kOutOfMemory,
                                std::string("cannot start the load thread: ") + error.what()));
  }
  LoadJob& started = *job;
  environment.loads.emplace(&started, std::move(job));
  return started.promise();
}

LoadJob::LoadJob(Environment& environment, Napi::Env env, LoadOptions options,
                 Napi::Function on_progress, Napi::Function on_step)
    : environment_(environment),
      promise_(Napi::Promise::Deferred::New(env)),
      on_progress_(Napi::Persistent(on_progress)),
      on_step_(Napi::Persistent(on_step)),
      options_(std::move(options)),
      channel_(std::make_shared<StepChannel>(env)),
      wakeup_(env, "svc:load", [this](Napi::Env js) { OnWake(js); }) {
  wakeup_.KeepProcessAlive(true);
  options_.on_progress = [this](float fraction) {
    progress_ = fraction;
    wakeup_.Signal();
    return !cancelled_;
  };
  thread_ = std::thread([this] { Run(); });
}

LoadJob::~LoadJob() { Stop(); }

void LoadJob::Stop() {
  Cancel();
  if (!thread_.joinable()) return;
  thread_.join();
  result_.emplace(Status(StatusCode::kCancelled, "the load was cancelled"));
}

void LoadJob::Run() {
  try {
    const OutputSink sink = [channel = channel_](std::vector<GenerationOutput> outputs) {
      channel->Push(std::move(outputs));
    };
    result_.emplace(Engine::Load(options_, sink));
  } catch (const std::exception&) {
    result_.emplace(CaughtStatus("no memory to load " + options_.path));
  }
  loaded_ = true;
  wakeup_.Signal();
}

void LoadJob::OnWake(Napi::Env env) {
  const bool loaded = loaded_;
  const float progress = progress_;
  if (progress > told_progress_) {
    told_progress_ = progress;
    CallListener(on_progress_.Value(), {Napi::Number::New(env, progress)});
  }
  if (loaded) Settle(env);
}

void LoadJob::Settle(Napi::Env env) {
  const std::unique_ptr<LoadJob> self = std::move(environment_.loads.at(this));
  environment_.loads.erase(this);
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  Result<std::unique_ptr<Engine>>& result = *result_;
  if (!result.ok()) {
    promise_.Reject(MakeError(env, result.status()).Value());
    return;
  }
  std::shared_ptr<Engine> engine = std::move(result.value());
  if (cancelled_) {
    return CloseEngine(
        env, std::move(engine), [promise = promise_, channel = channel_](Napi::Env js) {
          promise.Reject(
              MakeError(js, Status(StatusCode::kCancelled, "the load was cancelled")).Value());
        });
  }
  promise_.Resolve(EngineObject::New(
      env, {.engine = std::move(engine), .channel = channel_, .on_step = on_step_.Value()}));
}

}  // namespace svc::binding
