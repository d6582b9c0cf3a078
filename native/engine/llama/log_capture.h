// libllama says why it failed only in its log; and it logs as failures what was wanted.
#pragma once

#include <atomic>
#include <string>

namespace svc {

// While it lives, keeps the errors that libllama logs on this thread. Does not nest.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // The first error as a phrase, without the name of the function it came from; may be empty.
  std::string Reason() const;
  // Whether any of the errors says that memory could not be had.
  bool OutOfMemory() const;

 private:
  friend void CaptureError(const char* text);
  std::string errors_;  // lines
};

// While it lives, what libllama logs on this thread once `abort` is set is the echo of that abort:
// DemotesErrors() is true. Does not nest.
class AbortedLog {
 public:
  explicit AbortedLog(const std::atomic<bool>& abort);
  ~AbortedLog();
  AbortedLog(const AbortedLog&) = delete;
  AbortedLog& operator=(const AbortedLog&) = delete;
};

// Called for each error by the log callback.
void CaptureError(const char* text);
// Asked for each line by the log callback.
bool DemotesErrors();

}  // namespace svc
