// The pictures and sounds of one request, from their bytes to rows of its prompt.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/status.h"
#include "engine/llama/media/projector.h"
#include "engine/model/media_rows.h"
#include "engine/types/chat.h"
#include "engine/types/model_info.h"

namespace svc {

// Requests whose pictures and sounds are being computed. Thread: any.
class MediaRequests {
 public:
  // Ends the computation for a request; unknown ids are ignored.
  void Cancel(GenerationId id);
  // Ends all computations, and later ones at once.
  void Close();

 private:
  friend class PromptMedia;
  struct Request {
    GenerationId id = 0;
    std::atomic<bool> abort = false;
  };
  std::mutex mutex_;
  bool closed_ = false;
  std::list<Request> requests_;
};

// Thread: the one that submits the request.
class PromptMedia {
 public:
  // `projector`: null, if the model has none. The others must outlive the object.
  PromptMedia(Projector* projector, const ModelInfo& info, MediaRequests* requests,
              GenerationId id);
  ~PromptMedia();
  PromptMedia(const PromptMedia&) = delete;
  PromptMedia& operator=(const PromptMedia&) = delete;

  // Decodes all of them and sets Media::tokens; their bytes are freed. Error: kInvalidRequest,
  // which names the part of the content.
  Status Prepare(std::vector<ChatMessage>* messages);

  // Computes those that are in the prompt. Error: kInvalidRequest, if the prompt ends with one;
  // kCancelled; kInternal.
  Result<std::vector<MediaRows>> Encode(const std::vector<Token>& prompt);

 private:
  Status Prepare(Media* media, const std::string& param);

  Projector* const projector_;
  const ModelInfo& info_;
  MediaRequests* const requests_;
  std::list<MediaRequests::Request>::iterator request_;
  std::vector<PreparedMedia> prepared_;
};

// The tokens of a prompt that are in the vocabulary.
std::vector<Token> WithoutMedia(const std::vector<Token>& prompt);

}  // namespace svc
