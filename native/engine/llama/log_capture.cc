#include "engine/llama/log_capture.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace svc {
namespace {

thread_local LogCapture* current = nullptr;
thread_local const std::atomic<bool>* current_abort = nullptr;

}  // namespace

LogCapture::LogCapture() { current = this; }
LogCapture::~LogCapture() { current = nullptr; }

AbortedLog::AbortedLog(const std::atomic<bool>& abort) { current_abort = &abort; }
AbortedLog::~AbortedLog() { current_abort = nullptr; }

bool DemotesErrors() { return current_abort != nullptr && *current_abort; }

void CaptureError(const char* text) {
  if (current != nullptr) current->errors_ += text;
}

std::string LogCapture::Reason() const {
  std::string line = errors_.substr(0, errors_.find('\n'));
  // Example: "llama_model_load: error loading model: tensor 'x' is missing". Keeps what follows the
  // function's name and the heading.
  for (const std::string_view heading :
       {"error loading model: ", "failed to initialize the context: "}) {
    if (const auto at = line.find(heading); at != std::string::npos)
      line.erase(0, at + heading.size());
  }
  const auto colon = line.find(": ");
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  if (colon != std::string::npos && std::all_of(line.begin(), line.begin() + colon, is_name)) {
    line.erase(0, colon + 2);
  }
  while (!line.empty() &&
         (line.back() == '.' || std::isspace(static_cast<unsigned char>(line.back())))) {
    line.pop_back();
  }
  return line;
}

Status LogCapture::Failure(const std::string& what) const {
  const std::string reason = Reason();
  return {OutOfMemory() ? StatusCode::kOutOfMemory : StatusCode::kModelInvalid,
          what + ": " + (reason.empty() ? "libllama gave no reason" : reason)};
}

bool LogCapture::OutOfMemory() const {
  constexpr std::array kPhrases = {"failed to allocate", "unable to allocate", "bad_alloc",
                                   "out of memory", "Cannot allocate memory"};
  return std::ranges::any_of(
      kPhrases, [this](const char* phrase) { return errors_.find(phrase) != std::string::npos; });
}

}  // namespace svc
