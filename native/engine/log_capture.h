// libllama says why it failed only in its log.
#pragma once

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

// Called for each error by the log callback.
void CaptureError(const char* text);

}  // namespace svc
