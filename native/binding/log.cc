#include "binding/log.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/errors.h"
#include "engine/llama/devices.h"

namespace svc::binding {
namespace {

// Receiver of libllama's lines. One per process, like libllama's logger.
std::mutex g_current_mutex;
LogForwarder* g_current = nullptr;

void Forward(const char* level, const char* text) {
  const std::lock_guard<std::mutex> lock(g_current_mutex);
  if (g_current != nullptr) g_current->Write(level, text);
}

}  // namespace

void TakeLog() { SetLogSink(Forward); }

void SetLogger(const Napi::CallbackInfo& info) {
  const Napi::Function listener = ReadFunction(info[0], "logger");
  Environment& environment = Environment::Of(info.Env());
  environment.log.reset();
  environment.log = std::make_unique<LogForwarder>(info.Env(), listener);
}

LogForwarder::LogForwarder(Napi::Env env, Napi::Function listener)
    : listener_(Napi::Persistent(listener)),
      wakeup_(env, "svc:log", [this](Napi::Env) { Deliver(); }) {
  const std::lock_guard<std::mutex> lock(g_current_mutex);
  g_current = this;
}

LogForwarder::~LogForwarder() {
  const std::lock_guard<std::mutex> lock(g_current_mutex);
  if (g_current == this) g_current = nullptr;
}

void LogForwarder::Write(const char* level, const char* text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lines_.size() == kMaxLines) {
    ++dropped_;
    return;
  }
  lines_.push_back({level, text});
  wakeup_.Signal();
}

void LogForwarder::Deliver() {
  std::vector<Line> lines;
  std::size_t dropped = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines.swap(lines_);
    std::swap(dropped, dropped_);
  }
  if (dropped != 0) lines.push_back({"warn", std::to_string(dropped) + " log lines were dropped"});
  // The listener may set another logger and so destroy this object: use only locals from here on.
  const Napi::Function listener = listener_.Value();
  const Napi::Env env = listener.Env();
  for (const Line& line : lines) {
    const Napi::HandleScope scope(env);
    CallListener(listener, {Napi::String::New(env, line.level), Napi::String::New(env, line.text)});
  }
}

}  // namespace svc::binding
