// Marks for pictures and sounds in a rendered chat. A template sees text only, so each picture or
// sound is a mark in its message, and the prompt is taken apart at the marks after rendering. A
// mark has random characters, so that no message can contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/types/chat.h"

namespace svc {

// Thread: any; one object serves one prompt.
class MediaMarks {
 public:
  // `messages` must outlive it.
  explicit MediaMarks(const std::vector<ChatMessage>& messages);

  bool empty() const { return media_.empty(); }
  // Contents of the message with this index, with its marks. `change` is applied to the texts
  // between them.
  std::string Content(std::size_t message,
                      const std::function<std::string(const std::string&)>& change) const;

  // Part of a prompt: text, or a picture or sound.
  struct Part {
    std::string_view text;
    const Media* media = nullptr;
  };
  // Parts of the rendered `prompt`, in their order. Error: kInvalidRequest, if the template has
  // left one out or written one twice.
  Result<std::vector<Part>> Split(std::string_view prompt) const;

 private:
  std::string MarkOf(std::size_t index) const;

  std::string secret_;
  const std::vector<ChatMessage>& messages_;
  std::vector<const Media*> media_;  // of all messages
};

}  // namespace svc
