// The single output for log lines: libllama, libmtmd and ggml call Receive(), which passes whole
// lines to the sink. libllama-common has a logger of its own, with a thread and stderr. It is kept
// silent, because its lines on templates and grammars quote prompts, and its errors are thrown as
// exceptions anyway.
#include <mutex>
#include <string>
#include <utility>

#include "engine/llama/devices.h"
#include "engine/llama/log_capture.h"
#include "llama.h"
#include "log.h"
#include "mtmd.h"

namespace svc {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink call;
  std::string line;  // incomplete line
  ggml_log_level level = GGML_LOG_LEVEL_INFO;
};

// Never destroyed: libraries may log while the process exits.
Sink& TheSink() {
  static auto* sink = new Sink;
  return *sink;
}

const char* LevelName(ggml_log_level level) {
  switch (level) {
    case GGML_LOG_LEVEL_DEBUG:
      return "debug";
    case GGML_LOG_LEVEL_WARN:
      return "warn";
    case GGML_LOG_LEVEL_ERROR:
      return "error";
    default:
      return "info";
  }
}

void Receive(ggml_log_level level, const char* text, void* /*user*/) {
  if (level == GGML_LOG_LEVEL_ERROR) CaptureError(text);
  if (level != GGML_LOG_LEVEL_CONT && DemotesErrors()) level = GGML_LOG_LEVEL_DEBUG;
  Sink& sink = TheSink();
  const std::lock_guard lock(sink.mutex);
  if (sink.call == nullptr) return;
  if (level != GGML_LOG_LEVEL_CONT) sink.level = level;
  for (; *text != '\0'; ++text) {
    if (*text != '\n') {
      sink.line += *text;
    } else if (!sink.line.empty()) {
      sink.call(LevelName(sink.level), sink.line.c_str());
      sink.line.clear();
    }
  }
}

}  // namespace

void SetLogSink(LogSink sink) {
  {
    Sink& the_sink = TheSink();
    const std::lock_guard lock(the_sink.mutex);
    the_sink.call = std::move(sink);
    the_sink.line.clear();
  }
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(Receive, nullptr);
    mtmd_log_set(Receive, nullptr);
    common_log_set_verbosity_thold(-1);
  });
}

}  // namespace svc
