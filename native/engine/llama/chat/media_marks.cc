#include "engine/llama/chat/media_marks.h"

#include <algorithm>
#include <random>

namespace svc {
namespace {

std::string Secret() {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < 4; ++i) digits += std::to_string(random()) + 'x';
  return digits;
}

}  // namespace

MediaMarks::MediaMarks(const std::vector<ChatMessage>& messages) : messages_(messages) {
  for (const ChatMessage& message : messages) {
    for (const Media& media : message.media) media_.push_back(&media);
  }
  if (!media_.empty()) secret_ = Secret();
}

std::string MediaMarks::MarkOf(std::size_t index) const {
  return "<__media_" + secret_ + std::to_string(index) + "__>";
}

std::string MediaMarks::Content(
    std::size_t message, const std::function<std::string(const std::string&)>& change) const {
  std::size_t index = 0;
  for (std::size_t i = 0; i < message; ++i) index += messages_[i].media.size();
  const std::string& content = messages_[message].content;
  std::string marked;
  std::size_t from = 0;
  for (const Media& media : messages_[message].media) {
    const std::size_t at = std::clamp<std::size_t>(media.at, from, content.size());
    marked += change(content.substr(from, at - from)) + MarkOf(index++);
    from = at;
  }
  return marked + change(content.substr(from));
}

Result<std::vector<MediaMarks::Part>> MediaMarks::Split(std::string_view prompt) const {
  const std::string head = "<__media_" + secret_;
  std::vector<Part> parts;
  std::vector<bool> seen(media_.size(), false);
  for (std::size_t at = 0; (at = prompt.find(head)) != std::string_view::npos;) {
    if (at > 0) parts.push_back({.text = prompt.substr(0, at)});
    std::size_t index = 0;
    while (index < media_.size() && !prompt.substr(at).starts_with(MarkOf(index))) ++index;
    if (index == media_.size() || seen[index]) break;
    seen[index] = true;
    parts.push_back({.text = {}, .media = media_[index]});
    prompt.remove_prefix(at + MarkOf(index).size());
  }
  if (!std::ranges::all_of(seen, [](bool each) { return each; }) ||
      prompt.find(head) != std::string_view::npos) {
    return Status(StatusCode::kInvalidRequest,
                  "the model's chat template has no place for a picture or sound here", "messages");
  }
  if (!prompt.empty()) parts.push_back({.text = prompt});
  return parts;
}

}  // namespace svc
