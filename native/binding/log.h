// setLogger of src/engine/addon.ts: libllama's own log lines, in batches, on the JavaScript thread.
//
// libllama has one logger for the process; it is the last one set, of whichever environment. While
// there is none, nothing is written anywhere.
#pragma once

#include <napi.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "binding/wakeup.h"

namespace svc::binding {

// From now on libllama's lines come here and not to stderr. Any thread, any number of times.
void TakeLog();

void SetLogger(const Napi::CallbackInfo& info);

class LogForwarder {
 public:
  // JavaScript thread, as all but Write.
  LogForwarder(Napi::Env env, Napi::Function listener);
  ~LogForwarder();
  LogForwarder(const LogForwarder&) = delete;
  LogForwarder& operator=(const LogForwarder&) = delete;

  // Any thread. One line.
  void Write(const char* level, const char* text);

  // Hands what has gathered to the listener.
  void Deliver();

 private:
  struct Line {
    std::string level;
    std::string text;
  };

  // Lines that wait at most; later ones are counted and dropped.
  static constexpr std::size_t kMaxLines = 4096;

  Napi::FunctionReference listener_;
  std::mutex mutex_;
  std::vector<Line> lines_;  // guarded by mutex_
  std::size_t dropped_ = 0;  // guarded by mutex_
  Wakeup wakeup_;
};

}  // namespace svc::binding
