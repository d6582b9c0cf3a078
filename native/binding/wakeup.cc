#include "binding/wakeup.h"

#include <mutex>
#include <utility>

namespace svc::binding {

// Outlives the Wakeup until Node releases the thread-safe function.
struct Wakeup::State {
  static void OnCall(Napi::Env env, Napi::Function unused, State* state, void* data);
  using ThreadSafeFunction = Napi::TypedThreadSafeFunction<State, void, OnCall>;

  explicit State(Napi::Env env_in, std::function<void(Napi::Env)> on_wake_in)
      : env(env_in), on_wake(std::move(on_wake_in)) {}

  const Napi::Env env;
  const std::function<void(Napi::Env)> on_wake;
  std::mutex mutex;
  ThreadSafeFunction function;
  // False once the Wakeup or Node has released the function. Node deletes it when the environment
  // ends, even if it is still in use, so access it only with the mutex held and `open` true.
  bool open = true;
  bool signalled = false;
};

// `env` is null when Node drains its queue at the end; `state` may then be dangling.
void Wakeup::State::OnCall(Napi::Env env, Napi::Function /*unused*/, State* state, void* /*data*/) {
  if (env == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    if (!state->open) return;
    state->signalled = false;
  }
  try {
    state->on_wake(env);
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());
  }
}

Wakeup::Wakeup(Napi::Env env, const char* name, std::function<void(Napi::Env)> on_wake)
    : state_(std::make_shared<State>(env, std::move(on_wake))) {
  auto* owner = new std::shared_ptr<State>(state_);
  state_->function = State::ThreadSafeFunction::New(
      env, name, /*maxQueueSize=*/0, /*initialThreadCount=*/1, state_.get(),
      [](Napi::Env /*env*/, std::shared_ptr<State>* held, State* state) {
        {
          const std::lock_guard<std::mutex> lock(state->mutex);
          state->open = false;
        }
        delete held;
      },
      owner);
  state_->function.Unref(env);
}

Wakeup::~Wakeup() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (std::exchange(state_->open, false)) state_->function.Release();
}

void Wakeup::Signal() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->open || state_->signalled) return;
  state_->signalled = state_->function.NonBlockingCall() == napi_ok;
}

void Wakeup::KeepProcessAlive(bool on) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->open) return;
  if (on) {
    state_->function.Ref(state_->env);
  } else {
    state_->function.Unref(state_->env);
  }
}

}  // namespace svc::binding
