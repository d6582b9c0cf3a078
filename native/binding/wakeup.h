// Wakes the JavaScript thread from any other thread.
//
// Signals are merged until on_wake runs: however far JavaScript lags behind, at most one call is
// queued. A signal carries no data; the caller of Signal() keeps it.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>

namespace svc::binding {

class Wakeup {
 public:
  // JavaScript thread. `on_wake` is called there; its exceptions become uncaught exceptions. It may
  // destroy the Wakeup.
  Wakeup(Napi::Env env, const char* name, std::function<void(Napi::Env)> on_wake);
  // JavaScript thread. on_wake is not called after this.
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Any thread. Does nothing after the environment has ended.
  void Signal();

  // JavaScript thread. `on`: the process stays alive to wait for signals. Initially off.
  void KeepProcessAlive(bool on);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace svc::binding
