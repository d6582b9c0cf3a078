#include "engine/llama/media/prompt_media.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace svc {

void MediaRequests::Cancel(GenerationId id) {
  const std::lock_guard lock(mutex_);
  for (Request& request : requests_) {
    if (request.id == id) request.abort = true;
  }
}

void MediaRequests::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Request& request : requests_) request.abort = true;
}

PromptMedia::PromptMedia(Projector* projector, const ModelInfo& info, MediaRequests* requests,
                         GenerationId id)
    : projector_(projector), info_(info), requests_(requests) {
  const std::lock_guard lock(requests_->mutex_);
  request_ = requests_->requests_.emplace(requests_->requests_.begin());
  request_->id = id;
  request_->abort = requests_->closed_;
}

PromptMedia::~PromptMedia() {
  const std::lock_guard lock(requests_->mutex_);
  requests_->requests_.erase(request_);
}

Status PromptMedia::Prepare(std::vector<ChatMessage>* messages) {
  for (std::size_t i = 0; i < messages->size(); ++i) {
    for (Media& media : (*messages)[i].media) {
      const std::string param =
          "messages[" + std::to_string(i) + "].content[" + std::to_string(media.part) + "]";
      SVC_RETURN_IF_ERROR(Prepare(&media, param));
    }
  }
  return Status::Ok();
}

Status PromptMedia::Prepare(Media* media, const std::string& param) {
  const bool is_image = media->type == MediaType::kImage;
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kInvalidRequest, why, param);
  };
  if (!(is_image ? info_.sees : info_.hears)) {
    const std::string lack =
        is_image ? "this model cannot see pictures" : "this model cannot hear sounds";
    if (info_.projector_refusal.empty()) return refuse(lack);
    return refuse(lack + ": its projector " + info_.projector_refusal);
  }
  Result<PreparedMedia> prepared = projector_->Prepare(*media);
  if (!prepared.ok()) {
    return refuse((is_image ? "the picture " : "the sound ") + prepared.status().message());
  }
  media->tokens = prepared.value().tokens;
  media->data = std::string();
  prepared_.push_back(std::move(prepared.value()));
  return Status::Ok();
}

Result<std::vector<MediaRows>> PromptMedia::Encode(const std::vector<Token>& prompt) {
  std::map<Token, const PreparedMedia::Piece*> pieces;
  for (const PreparedMedia& prepared : prepared_) {
    for (const PreparedMedia::Piece& piece : prepared.pieces) pieces.emplace(piece.first, &piece);
  }
  std::vector<MediaRows> media;
  for (std::uint32_t at = 0; at < prompt.size(); ++at) {
    const auto found = IsMediaToken(prompt[at]) ? pieces.find(prompt[at]) : pieces.end();
    if (found == pieces.end()) continue;
    const PreparedMedia::Piece& piece = *found->second;
    SVC_ASSIGN_OR_RETURN(auto embeddings, projector_->Encode(piece, request_->abort));
    media.push_back({.begin = at,
                     .count = piece.rows,
                     .width = projector_->width(),
                     .is_whole = piece.is_whole,
                     .positions = piece.positions,
                     .places = piece.places,
                     .embeddings = std::move(embeddings)});
    at += piece.rows - 1;
  }
  if (!media.empty() && media.back().end() >= prompt.size()) {
    return Status(StatusCode::kInvalidRequest,
                  "the prompt ends with a picture or sound; text must follow it", "messages");
  }
  return media;
}

std::vector<Token> WithoutMedia(const std::vector<Token>& prompt) {
  std::vector<Token> tokens;
  std::ranges::copy_if(prompt, std::back_inserter(tokens),
                       [](Token token) { return !IsMediaToken(token); });
  return tokens;
}

}  // namespace svc
