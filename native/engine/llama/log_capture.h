// Captures libllama's errors: it gives reasons for failures only in its log. Also demotes what it
// logs as errors when a batch is aborted on purpose.
#pragma once

#include <atomic>
#include <string>

#include "engine/base/status.h"

namespace svc {

// RAII: keeps the errors that libllama logs on this thread. Does not nest.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // The first error as a phrase, without the function's name; may be empty.
  std::string Reason() const;
  // Status of a call that failed: "`what`: the reason", kOutOfMemory or kModelInvalid.
  Status Failure(const std::string& what) const;
  // True if any error means that memory ran out.
  bool OutOfMemory() const;

 private:
  friend void CaptureError(const char* text);
  std::string errors_;  // lines
};

// RAII: once `abort` is set, what libllama logs on this thread is a consequence of the abort, and
// DemotesErrors() is true. Does not nest.
class AbortedLog {
 public:
  explicit AbortedLog(const std::atomic<bool>& abort);
  ~AbortedLog();
  AbortedLog(const AbortedLog&) = delete;
  AbortedLog& operator=(const AbortedLog&) = delete;
};

// Adds an error; called by the log callback.
void CaptureError(const char* text);
// True if errors are to be logged as debug lines; called by the log callback for each line.
bool DemotesErrors();

}  // namespace svc
