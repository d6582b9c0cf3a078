#include "engine/run/text_logprobs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace svc {

void TextLogprobs::Add(std::vector<TokenLogprobs> read) {
  std::ranges::move(read, std::back_inserter(waiting_));
}

void TextLogprobs::MoveTo(GenerationOutput* output) {
  const bool has_other = !output->reasoning.empty() || !output->tool_calls.empty();
  if (output->text.empty()) {
    if (has_other) waiting_.clear();
    return;
  }
  std::string read;
  for (const TokenLogprobs& each : waiting_) read += each.chosen.bytes;
  // A reader drops what stands around a text, such as a tag, but changes nothing in it.
  const std::size_t found = read.find(output->text);
  const std::size_t begin = found == std::string::npos ? 0 : found;
  const std::size_t end = found == std::string::npos ? read.size() : found + output->text.size();
  std::vector<TokenLogprobs> held;
  std::size_t at = 0;
  for (TokenLogprobs& each : waiting_) {
    const std::size_t begins = std::exchange(at, at + each.chosen.bytes.size());
    if (begins < end && at > begin) {
      output->logprobs.push_back(std::move(each));
    } else if (begins >= end && !has_other) {
      held.push_back(std::move(each));
    }
  }
  waiting_ = std::move(held);
}

}  // namespace svc
