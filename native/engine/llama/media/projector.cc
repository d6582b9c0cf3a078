#include "engine/llama/media/projector.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/base64.h"
#include "engine/llama/log_capture.h"
#include "engine/llama/media/picture.h"
#include "engine/llama/media/sound.h"
#include "engine/llama/projector_memory.h"

namespace svc {
namespace {

// Embeddings that are kept for the next request: 64 MiB.
constexpr std::size_t kKeptFloats = std::size_t{16} << 20U;
// Part by which a part of a picture corrects the speed that was known.
constexpr double kCorrection = 0.3;

// Places of the rows, as libmtmd's helper gives them to libllama. Empty: their indices.
std::vector<MediaPlace> PlacesOf(const mtmd_context* context, const mtmd_input_chunk* chunk,
                                 std::uint32_t rows) {
  std::vector<MediaPlace> places;
  if (!mtmd_decode_use_mrope(context)) return places;
  const mtmd_image_tokens* image = mtmd_input_chunk_get_tokens_image(chunk);
  const auto at = [&](llama_pos first, std::uint32_t row) -> std::array<std::int32_t, 4> {
    if (image == nullptr) {
      const auto index = static_cast<std::int32_t>(row) + first;
      return {index, index, index, index};
    }
    const mtmd_decoder_pos place = mtmd_image_tokens_get_decoder_pos(image, first, row);
    return {static_cast<std::int32_t>(place.t), static_cast<std::int32_t>(place.y),
            static_cast<std::int32_t>(place.x), static_cast<std::int32_t>(place.z)};
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    MediaPlace place{.offsets = at(0, row)};
    const std::array<std::int32_t, 4> moved = at(1, row);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      place.is_relative[i] = moved[i] != place.offsets[i];
    }
    places.push_back(place);
  }
  return places;
}

// Multiplications of an operation; 0 for those that take little time.
double WorkOf(const ggml_tensor& node) {
  const auto values = static_cast<double>(ggml_nelements(&node));
  if (node.op == GGML_OP_MUL_MAT) return values * static_cast<double>(node.src[0]->ne[0]);
  // For each value of its result, all keys and all values.
  if (node.op == GGML_OP_FLASH_ATTN_EXT) {
    return 2 * values * static_cast<double>(node.src[1]->ne[1]);
  }
  return 0;
}

std::string ReasonOf(const LogCapture& log) {
  constexpr std::string_view kHeading = "error: ";
  std::string reason = log.Reason();
  if (reason.starts_with(kHeading)) reason.erase(0, kHeading.size());
  return reason.empty() ? "libmtmd gave no reason" : reason;
}

Status Refuse(const std::string& why) { return {StatusCode::kInvalidRequest, why}; }

}  // namespace

Projector::Projector(std::uint32_t width, std::uint32_t max_rows, const SipKey& key,
                     std::shared_ptr<MediaTurns> turns)
    : width_(width), max_rows_(max_rows), key_(key), turns_(std::move(turns)) {}

Result<std::unique_ptr<Projector>> Projector::Load(const LoadOptions& options,
                                                   const LlamaModel& model, int threads,
                                                   std::uint32_t max_rows, const SipKey& key,
                                                   std::shared_ptr<MediaTurns> turns) {
  const auto width = static_cast<std::uint32_t>(llama_model_n_embd_inp(model.get()));
  std::unique_ptr<Projector> projector(new Projector(width, max_rows, key, std::move(turns)));
  mtmd_context_params params = ProjectorParams(options, threads);
  params.cb_eval = AtNode;
  params.cb_eval_user_data = projector.get();
  bool cancelled = false;
  std::pair<const LoadOptions*, bool*> progress{&options, &cancelled};
  params.progress_callback_user_data = &progress;
  params.progress_callback = [](float /*fraction*/, void* user) {
    const auto& [load, stopped] = *static_cast<std::pair<const LoadOptions*, bool*>*>(user);
    // The model has already reported its progress up to 1.
    if (load->on_progress && !load->on_progress(1.0F)) *stopped = true;
    return !*stopped;
  };
  const LogCapture log;
  projector->context_.reset(
      mtmd_init_from_file(options.projector_path.c_str(), model.get(), params));
  if (cancelled) return Status(StatusCode::kCancelled, "the load was cancelled");
  if (projector->context_ == nullptr) {
    return Status(StatusCode::kModelInvalid, "cannot be used: " + ReasonOf(log));
  }
  return projector;
}

bool Projector::sees() const { return mtmd_support_vision(context_.get()); }
bool Projector::hears() const { return mtmd_support_audio(context_.get()); }

Result<PreparedMedia> Projector::Prepare(const Media& media) const {
  const std::optional<std::vector<std::uint8_t>> bytes = DecodeBase64(media.data);
  if (!bytes || bytes->empty()) return Refuse("is not base64");
  mtmd::bitmap_ptr bitmap;
  if (media.type == MediaType::kImage) {
    SVC_ASSIGN_OR_RETURN(const Picture picture, DecodePicture(*bytes));
    bitmap.reset(mtmd_bitmap_init(picture.width, picture.height, picture.pixels.data()));
  } else {
    const int rate = mtmd_get_audio_sample_rate(context_.get());
    SVC_ASSIGN_OR_RETURN(const std::vector<float> sound,
                         DecodeSound(*bytes, static_cast<std::uint32_t>(rate)));
    bitmap.reset(mtmd_bitmap_init_from_audio(sound.size(), sound.data()));
  }
  PreparedMedia prepared;
  prepared.chunks_.reset(mtmd_input_chunks_init());
  const std::string marker = mtmd_get_marker(context_.get());
  const mtmd_input_text text = {.text = marker.c_str(),
                                .text_len = marker.size(),
                                .add_special = false,
                                .parse_special = true};
  const mtmd_bitmap* bitmaps = bitmap.get();
  int32_t code = 0;
  try {
    code = mtmd_tokenize(context_.get(), prepared.chunks_.get(), &text, &bitmaps, 1);
  } catch (const std::exception&) {
    code = 2;
  }
  if (code != 0) return Refuse("cannot be sized for this model");
  return Cut(std::move(prepared), SipHash128(key_, *bytes));
}

// Lists the pieces, with ids for their rows.
Result<PreparedMedia> Projector::Cut(PreparedMedia prepared, const SipTag& digest) const {
  const std::size_t count = mtmd_input_chunks_size(prepared.chunks_.get());
  for (std::size_t i = 0; i < count; ++i) {
    const mtmd_input_chunk* chunk = mtmd_input_chunks_get(prepared.chunks_.get(), i);
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
      std::size_t length = 0;
      const llama_token* tokens = mtmd_input_chunk_get_tokens_text(chunk, &length);
      prepared.tokens.insert(prepared.tokens.end(), tokens, tokens + length);
      continue;
    }
    const auto rows = static_cast<std::uint32_t>(mtmd_input_chunk_get_n_tokens(chunk));
    const bool is_whole = mtmd_decode_use_non_causal(context_.get(), chunk);
    if (rows == 0) return Refuse("has nothing that this model could take in");
    if (is_whole && rows > max_rows_) {
      return Refuse("takes " + std::to_string(rows) + " tokens at once, more than the " +
                    std::to_string(max_rows_) + " of a batch; make it smaller");
    }
    const SipTag of_piece = {digest[0] + i, digest[1]};
    const std::vector<Token> ids = MediaTokens(of_piece, rows);
    prepared.tokens.insert(prepared.tokens.end(), ids.begin(), ids.end());
    prepared.pieces.push_back(
        {.digest = of_piece,
         .first = ids.front(),
         .rows = rows,
         .is_whole = is_whole,
         .positions = static_cast<std::uint32_t>(mtmd_input_chunk_get_n_pos(chunk)),
         .places = PlacesOf(context_.get(), chunk, rows),
         .chunk = chunk});
  }
  return prepared;
}

Result<std::shared_ptr<const std::vector<float>>> Projector::Encode(
    const PreparedMedia::Piece& piece, const std::atomic<bool>& abort) {
  const Status cancelled(StatusCode::kCancelled, "the request was cancelled");
  const std::lock_guard lock(mutex_);
  const std::size_t size = std::size_t{piece.rows} * width_;
  const auto found = std::ranges::find(kept_, piece.digest, &Kept::digest);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().embeddings;
  }
  if (abort) return cancelled;
  int32_t code = 0;
  {
    MediaTurns::Media media(turns_.get());
    run_ = {.media = &media, .abort = &abort, .began_at = Clock::now()};
    try {
      code = mtmd_encode_chunk(context_.get(), piece.chunk);
    } catch (const std::exception&) {
      code = 1;
    }
    run_.media = nullptr;
  }
  if (run_.given_up) return cancelled;
  const float* const output = code == 0 ? mtmd_get_output_embd(context_.get()) : nullptr;
  if (output == nullptr) {
    return Status(StatusCode::kInternal, "the projector could not compute a picture or sound");
  }
  auto embeddings = std::make_shared<const std::vector<float>>(output, output + size);
  kept_.push_front({.digest = piece.digest, .embeddings = embeddings});
  kept_floats_ += size;
  while (kept_floats_ > kKeptFloats && kept_.size() > 1) {
    kept_floats_ -= kept_.back().embeddings->size();
    kept_.pop_back();
  }
  return embeddings;
}

// ggml's callback. ask: returns whether to stop after this node. Otherwise: returns whether to
// continue.
bool Projector::AtNode(ggml_tensor* node, bool ask, void* projector) {
  auto* const self = static_cast<Projector*>(projector);
  if (self->run_.media == nullptr) return !ask;
  // "No" ends only the nodes that one backend computes, and those of the next begin: they then end
  // after the first.
  if (self->run_.given_up) return ask;
  return ask ? self->EndsPart(*node) : self->MayGoOn();
}

// True if the next long operation might not fit into the part.
bool Projector::EndsPart(const ggml_tensor& node) {
  const double work = WorkOf(node);
  if (work == 0) return false;
  run_.work += work;
  run_.largest = std::max(run_.largest, work);
  if (ms_per_work_ == 0 || *run_.abort) return true;
  return (run_.work + run_.largest) * ms_per_work_ > turns_->part_ms();
}

bool Projector::MayGoOn() {
  const double rate = Milliseconds(Clock::now() - run_.began_at) / run_.work;
  ms_per_work_ += (ms_per_work_ == 0 ? 1 : kCorrection) * (rate - ms_per_work_);
  run_.media->Yield();
  run_.given_up = *run_.abort;
  run_.work = 0;
  run_.began_at = Clock::now();
  return !run_.given_up;
}

}  // namespace svc
