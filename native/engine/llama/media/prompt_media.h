// The pictures and sounds of one request, from their bytes to rows of its prompt.
#pragma once

#include <vector>

#include "engine/base/request.h"
#include "engine/llama/media/projector.h"
#include "engine/model/media_rows.h"

namespace svc {

// Thread: the one that submits the request.
class PromptMedia {
 public:
  // `projector`: null, if the model has none.
  PromptMedia(Projector* projector, const ModelInfo& info) : projector_(projector), info_(info) {}

  // Decodes all of them and sets Media::tokens; their bytes are freed. Error: kInvalidRequest,
  // which names the part of the content.
  Status Prepare(std::vector<ChatMessage>* messages);

  // Computes those that are in the prompt. Error: kInvalidRequest, if the prompt ends with one;
  // kInternal.
  Result<std::vector<MediaRows>> Encode(const std::vector<Token>& prompt);

 private:
  Status Prepare(Media* media, const std::string& param);

  Projector* const projector_;
  const ModelInfo& info_;
  std::vector<PreparedMedia> prepared_;
};

// The tokens of a prompt that are in the vocabulary.
std::vector<Token> WithoutMedia(const std::vector<Token>& prompt);

}  // namespace svc
