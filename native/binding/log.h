// setLogger of src/engine/addon.ts: batches libllama's log lines for the JavaScript thread.
//
// libllama has one logger per process: the last one set, in any environment. While none is set, log
// lines are discarded.
#pragma once

#include <napi.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "binding/wakeup.h"

namespace svc::binding {

// Redirects libllama's log lines from stderr to the current LogForwarder. Thread: any. Idempotent.
void TakeLog();

void SetLogger(const Napi::CallbackInfo& info);

class LogForwarder {
 public:
  // JavaScript thread, as all methods but Write.
  LogForwarder(Napi::Env env, Napi::Function listener);
  ~LogForwarder();
  LogForwarder(const LogForwarder&) = delete;
  LogForwarder& operator=(const LogForwarder&) = delete;

  // Queues one line. Thread: any.
  void Write(const char* level, const char* text);

  // Passes the queued lines to the listener.
  void Deliver();

 private:
  struct Line {
    std::string level;
    std::string text;
  };

  // Maximum number of queued lines; further lines are counted and dropped.
  static constexpr std::size_t kMaxLines = 4096;

  Napi::FunctionReference listener_;
  std::mutex mutex_;
  std::vector<Line> lines_;  // guarded by mutex_
  std::size_t dropped_ = 0;  // guarded by mutex_
  Wakeup wakeup_;
};

}  // namespace svc::binding
