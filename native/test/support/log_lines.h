// Log lines, sent as libllama sends them, and received.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/llama/devices.h"
#include "llama.h"

namespace svc::test {

using Lines = std::vector<std::pair<std::string, std::string>>;  // levels and texts

// Sends a text as libllama does.
inline void Log(ggml_log_level level, const std::string& text) {
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  llama_log_get(&callback, &data);
  callback(level, text.c_str(), data);
}

// The lines that reach the sink.
template <typename Send>
Lines Received(Send send) {
  Lines lines;
  SetLogSink([&](const char* level, const char* text) { lines.emplace_back(level, text); });
  send();
  SetLogSink(nullptr);
  return lines;
}

}  // namespace svc::test
