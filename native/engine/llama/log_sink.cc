// The single output for log lines: libllama, libmtmd and ggml call Receive(), which passes whole
// lines to the sink. libllama-common has a logger of its own, with a thread and stderr. It is kept
// silent, because its lines on templates and grammars quote prompts, and its errors are thrown as
// exceptions anyway.
//
// The sink delivers lines asynchronously, so an abort would lose the last ones, with its reason.
// Aborted() writes the last errors to stderr.
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "engine/llama/devices.h"
#include "engine/llama/log_capture.h"
#include "ggml.h"
#include "llama.h"
#include "log.h"
#include "mtmd.h"

namespace svc {
namespace {

// CUDA's backend explains an abort in this many lines.
constexpr std::size_t kErrorsKept = 3;

struct Sink {
  std::mutex mutex;
  LogSink call;
  std::string line;  // incomplete line
  ggml_log_level level = GGML_LOG_LEVEL_INFO;
  std::deque<std::string> newest_errors;  // lines, at most kErrorsKept
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

void SendLine(Sink& sink) {
  if (sink.level == GGML_LOG_LEVEL_ERROR) {
    sink.newest_errors.push_back(sink.line);
    if (sink.newest_errors.size() > kErrorsKept) sink.newest_errors.pop_front();
  }
  sink.call(LevelName(sink.level), sink.line.c_str());
  sink.line.clear();
}

// ggml calls this on the thread that aborts, just before it ends the process.
void Aborted(const char* message) {
  std::string text;
  Sink& sink = TheSink();
  // Only tried, because the sink may have aborted with the mutex locked.
  if (const std::unique_lock lock(sink.mutex, std::try_to_lock); lock) {
    for (const std::string& error : sink.newest_errors) text += error + "; ";
  }
  (void)std::fprintf(stderr, "%s%s\n", text.c_str(), message);
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
      SendLine(sink);
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
    ggml_set_abort_callback(Aborted);
    mtmd_log_set(Receive, nullptr);
    common_log_set_verbosity_thold(-1);
  });
}

}  // namespace svc
