// Wakes the JavaScript thread from any other.
//
// Signals that come before the last one was answered are one: however far JavaScript is behind, one
// call waits in its queue. What there is to tell stays with whoever signals.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>

namespace svc::binding {

class Wakeup {
 public:
  // JavaScript thread. `on_wake` is called there; what it throws becomes an uncaught exception. It
  // may destroy the Wakeup.
  Wakeup(Napi::Env env, const char* name, std::function<void(Napi::Env)> on_wake);
  // JavaScript thread. on_wake is not called after this.
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Any thread. Does nothing once the environment ends.
  void Signal();

  // JavaScript thread. Whether the process waits for signals from here; at first it does not.
  void KeepProcessAlive(bool on);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace svc::binding
