#include "engine/text_engine.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <utility>

#include "engine/base/share.h"
#include "engine/base/work_limit.h"
#include "engine/cache/model_fingerprint.h"
#include "engine/cache/prefix_store.h"
#include "engine/llama/answer/answer_rules.h"
#include "engine/llama/chat/chat_renderer.h"
#include "engine/llama/chat/truncation.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/draft_model.h"
#include "engine/llama/llama_decoder.h"
#include "engine/llama/lora/adapters.h"
#include "engine/llama/media/projector.h"
#include "engine/llama/media/prompt_media.h"
#include "engine/llama/prompt/infill_prompt.h"
#include "engine/llama/sampler.h"
#include "engine/model/step_constants.h"
#include "engine/run/runner.h"

namespace svc {
namespace {

using PrefixBytes = std::shared_ptr<std::atomic<std::uint64_t>>;

// The model's adapters, and the key that separates their cached prefixes.
struct ScopedAdapters {
  Adapters loaded;
  std::vector<Fingerprint> fingerprints;  // of their files

  ShareId Salt(const SipKey& key, ShareId salt, const AdapterSet& set) const {
    std::vector<ScopedAdapter> used;
    for (const AdapterUse& use : set) used.push_back({fingerprints[use.index], use.scale});
    return SaltWith(key, salt, std::move(used));
  }
};

SipKey RandomKey() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32U | random(); };
  return {word(), word()};
}

class LlamaTextEngine final : public TextEngine {
 public:
  LlamaTextEngine(std::unique_ptr<LlamaModel> model, ScopedAdapters adapters,
                  std::unique_ptr<ChatRenderer> chat, std::unique_ptr<Decoder> decoder,
                  DraftModel draft, std::unique_ptr<Projector> projector,
                  std::shared_ptr<MediaTurns> turns, ModelInfo info, OutputSink sink,
                  std::unique_ptr<PrefixStore> store, const SipKey& key, PrefixBytes prefix_bytes)
      : TextEngine(std::move(model), std::move(info)),
        key_(key),
        adapters_(std::move(adapters)),
        prefix_bytes_(std::move(prefix_bytes)),
        draft_model_(std::move(draft.model)),
        chat_(std::move(chat)),
        projector_(std::move(projector)),
        rules_(this->model()),
        runner_(std::move(decoder), std::move(sink),
                {.measure_ms = this->info().device == "CPU" ? kMeasureMs : 0,
                 .cpu_ms = ProcessCpuMs,
                 .store = std::move(store),
                 .drafter = std::move(draft.drafter)},
                std::move(turns)) {}

  Result<RenderedPrompt> Render(GenerationRequest request) override {
    PromptMedia media(projector_.get(), this->info(), &media_requests_, request.id);
    SVC_RETURN_IF_ERROR(media.Prepare(&request.messages));
    const WorkLimit limit;
    if (request.messages.empty()) {
      SVC_ASSIGN_OR_RETURN(std::vector<Token> tokens, RawTokens(request, /*context_length=*/0));
      std::string text = model().Detokenize(tokens, /*special=*/true);
      return RenderedPrompt{std::move(text), std::move(tokens)};
    }
    SVC_ASSIGN_OR_RETURN(std::string text, chat_->Render(request.messages, request.chat));
    SVC_ASSIGN_OR_RETURN(ChatPrompt prompt, chat_->RenderTokens(request.messages, request.chat));
    return RenderedPrompt{std::move(text), std::move(prompt.tokens)};
  }

  Result<std::uint32_t> Submit(GenerationRequest request) override {
    SVC_ASSIGN_OR_RETURN(AdapterSet adapters, adapters_.loaded.Choose(request.lora));
    // Before the limit on time begins: a picture may take seconds.
    PromptMedia media(projector_.get(), this->info(), &media_requests_, request.id);
    SVC_RETURN_IF_ERROR(media.Prepare(&request.messages));
    std::optional<WorkLimit> limit(std::in_place);
    Submission submission;
    submission.id = request.id;
    submission.max_tokens = request.max_tokens;
    submission.priority = request.priority;
    submission.store = request.store;
    submission.scope.owner = ShareIdOf(key_, request.share);
    if (request.own_prefixes) submission.scope.salt = submission.scope.owner;
    submission.reuse_prefix = request.reuse_prefix;
    if (request.sampling.seed) KeepApart(request, &submission);
    submission.adapters = std::move(adapters);
    submission.scope.salt = adapters_.Salt(key_, submission.scope.salt, submission.adapters);
    submission.stop = std::move(request.stop);
    submission.repetition_guard = request.repetition_guard;
    request.chat.has_output_format = !request.grammar.empty();
    std::shared_ptr<const AnswerFormat> format;  // null: a raw prompt
    const Status read = request.messages.empty() ? ReadText(request, &submission)
                                                 : ReadChat(request, &submission, &format);
    if (!read.ok()) return read;

    const auto input_tokens = static_cast<std::uint32_t>(submission.prompt.size());
    if (input_tokens == 0) return Status(StatusCode::kInvalidRequest, "the prompt is empty");
    if (input_tokens + 1 > info().context_length) {
      return LlamaModel::TooLong(
          {.prompt_tokens = input_tokens, .context_length = info().context_length});
    }
    const std::optional<std::uint32_t> budget =
        format != nullptr ? chat_->ThinkingBudget(request.chat) : std::nullopt;
    SVC_ASSIGN_OR_RETURN(AnswerRules rules,
                         rules_.Make(std::move(format), request.grammar, budget));
    submission.reader = std::move(rules.reader);
    submission.spelled = std::move(rules.spelled);
    const std::vector<Token> seen = WithoutMedia(submission.prompt);
    submission.lists_tokens = request.continuation.has_value();
    Continuation continuation = std::move(request.continuation).value_or(Continuation{});
    if (submission.lists_tokens && !request.sampling.seed)
      request.sampling.seed = continuation.seed;
    SamplerOptions options{.params = request.sampling,
                           .prompt = seen,
                           .constraint = std::move(rules.constraint),
                           .known = std::move(continuation.tokens),
                           .logprobs = request.logprobs,
                           .piece = [this](Token token) { return model().Piece(token, true); }};
    SVC_ASSIGN_OR_RETURN(submission.sampler, NewSampler(model().vocab(), std::move(options)));
    limit.reset();
    SVC_ASSIGN_OR_RETURN(submission.media, media.Encode(submission.prompt));

    SVC_RETURN_IF_ERROR(runner_.Submit(std::move(submission)));
    return input_tokens;
  }

  void Cancel(GenerationId id) override {
    media_requests_.Cancel(id);
    runner_.Cancel(id);
  }
  void Pause(GenerationId id) override { runner_.Pause(id); }
  void Resume(GenerationId id) override { runner_.Resume(id); }
  void Hold(bool on) override { runner_.Hold(on); }
  void GrantCells(std::uint32_t cells, std::string refusal) override {
    runner_.GrantCells(cells, std::move(refusal));
  }
  void SetPrefixBytes(std::uint64_t bytes) override { *prefix_bytes_ = bytes; }
  void Close() override {
    media_requests_.Close();
    runner_.Close();
  }

 private:
  EngineStats WorkerStats() const override { return runner_.stats(); }
  // A request with a seed has a prefix of its own, or of its group.
  void KeepApart(const GenerationRequest& request, Submission* submission) const {
    submission->in_group = request.reuse_prefix && !request.prefix_group.empty();
    submission->reuse_prefix = submission->in_group;
    if (!submission->in_group) return;
    // Other requests do not find it, now or later, nor do other clients that name the same group.
    submission->scope.salt = ShareIdOf(key_, request.share + " group " + request.prefix_group);
    submission->store = false;
  }
  // Tokens of a raw prompt. context_length: as LlamaModel::Tokenize.
  Result<std::vector<Token>> RawTokens(const GenerationRequest& request,
                                       std::uint32_t context_length) const {
    if (!request.prompt_tokens.empty()) return request.prompt_tokens;
    if (request.infill) return InfillTokens(model(), request.prompt, *request.infill);
    return model().Tokenize(request.prompt, /*add_special=*/true, /*parse_special=*/true,
                            context_length);
  }

  Status ReadText(const GenerationRequest& request, Submission* submission) const {
    const std::uint32_t bound = request.truncate ? 0 : info().context_length;
    SVC_ASSIGN_OR_RETURN(submission->prompt, RawTokens(request, bound));
    if (request.truncate) {
      const PromptBudget budget = BudgetOf(info().context_length, request.max_tokens);
      submission->truncated_tokens = CutRawPrompt(model(), budget, &submission->prompt);
    }
    return Status::Ok();
  }

  Status ReadChat(const GenerationRequest& request, Submission* submission,
                  std::shared_ptr<const AnswerFormat>* format) const {
    CutPrompt cut;
    if (request.truncate) {
      SVC_ASSIGN_OR_RETURN(cut, CutChat(*chat_, request.messages, request.chat,
                                        BudgetOf(info().context_length, request.max_tokens)));
      submission->truncated_tokens = cut.truncated_tokens;
    } else {
      SVC_ASSIGN_OR_RETURN(
          cut.prompt, chat_->RenderTokens(request.messages, request.chat, info().context_length));
    }
    submission->prompt = std::move(cut.prompt.tokens);
    *format = std::move(cut.prompt.format);
    submission->own_stop = (*format)->stop;
    return Status::Ok();
  }

  const SipKey key_;
  const ScopedAdapters adapters_;
  const PrefixBytes prefix_bytes_;
  const std::unique_ptr<LlamaModel> draft_model_;  // null: no draft model
  const std::unique_ptr<ChatRenderer> chat_;
  const std::unique_ptr<Projector> projector_;  // null: no eyes and ears
  MediaRequests media_requests_;
  AnswerRulesMaker rules_;
  Runner runner_;  // ends before the models do
};

// Opens the disk tier of the prefix cache. Null: it is off or cannot be opened.
std::unique_ptr<PrefixStore> OpenPrefixStore(const LoadOptions& options, const Decoder& decoder,
                                             std::optional<std::uint32_t> turning_length,
                                             const SipKey& key, const PrefixBytes& bytes) {
  if (options.prefix_folder.empty() || options.prefix_bytes == 0) return nullptr;
  std::string version =
      SVC_LLAMA_CPP_TAG " cells of type " + std::to_string(static_cast<int>(options.cache_type));
  if (turning_length) {
    version += decoder.cells_total() > *turning_length ? ", long factors" : ", short";
  }
  return PrefixStore::Open(
      {.folder = options.prefix_folder,
       .model = options.prefix_model,
       .seal = {.fingerprint = FingerprintOf(options.path, version), .key = key},
       .max_bytes = options.prefix_bytes,
       .live_max_bytes = bytes,
       .divisible = decoder.can_share()});
}

// REQUIRES: the model has no context yet.
ScopedAdapters LoadAdapters(const LoadOptions& options, const LlamaModel& model) {
  ScopedAdapters adapters{.loaded = Adapters(model.get(), options.path, options.adapters)};
  for (const AdapterFile& file : options.adapters) {
    adapters.fingerprints.push_back(FingerprintOf(file.path, SVC_LLAMA_CPP_TAG));
  }
  return adapters;
}

// Null: there is none, or it cannot be used for the reason in *refusal. Error: kCancelled.
Result<std::unique_ptr<Projector>> LoadProjector(const LoadOptions& options,
                                                 const LlamaModel& model, int threads,
                                                 std::uint32_t max_rows, const SipKey& key,
                                                 const std::shared_ptr<MediaTurns>& turns,
                                                 std::string* refusal) {
  if (options.projector_path.empty()) return std::unique_ptr<Projector>();
  // A picture has other embeddings with another projector of the same model.
  const Fingerprint own = FingerprintOf(options.projector_path, SVC_LLAMA_CPP_TAG);
  const SipKey ids = DeriveKey(DeriveKey(key, "media"), std::to_string(own));
  Result<std::unique_ptr<Projector>> projector =
      Projector::Load(options, model, threads, max_rows, ids, turns);
  if (projector.ok() || projector.status().code() == StatusCode::kCancelled) return projector;
  *refusal = projector.status().message();
  return std::unique_ptr<Projector>();
}

}  // namespace

Result<std::unique_ptr<Engine>> NewTextEngine(std::unique_ptr<LlamaModel> model,
                                              const LoadOptions& options, OutputSink sink) {
  SVC_ASSIGN_OR_RETURN(std::unique_ptr<ChatRenderer> chat, ChatRenderer::New(*model));

  ModelInfo info = model->Describe();
  ScopedAdapters adapters = LoadAdapters(options, *model);
  info.adapters = adapters.loaded.infos();
  DecoderOptions decoder_options = DecoderOptionsOf(options, *model);
  decoder_options.adapters = adapters.loaded.handles();
  const auto pools = std::make_shared<ThreadPools>();
  SVC_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                       NewLlamaDecoder(*model, decoder_options, pools));
  DraftModel draft;
  if (!options.draft_path.empty()) {
    SVC_ASSIGN_OR_RETURN(draft,
                         LoadDraftModel(options, *model, *decoder, decoder_options.threads, pools));
  }

  const SipKey key = options.prefix_key.value_or(RandomKey());
  const auto turns = std::make_shared<MediaTurns>();
  SVC_ASSIGN_OR_RETURN(std::unique_ptr<Projector> projector,
                       LoadProjector(options, *model, decoder_options.threads, decoder->max_rows(),
                                     key, turns, &info.projector_refusal));

  info.context_length = decoder->max_cells();
  info.threads = decoder_options.threads;
  info.draft_refusal = draft.refusal;
  info.calls_tools = chat->calls_tools();
  info.thinks = chat->thinks();
  info.sees = projector != nullptr && projector->sees();
  info.hears = projector != nullptr && projector->hears();
  const auto bytes = std::make_shared<std::atomic<std::uint64_t>>(options.prefix_bytes);
  std::unique_ptr<PrefixStore> store =
      OpenPrefixStore(options, *decoder, model->turning_length(), key, bytes);
  return std::unique_ptr<Engine>(std::make_unique<LlamaTextEngine>(
      std::move(model), std::move(adapters), std::move(chat), std::move(decoder), std::move(draft),
      std::move(projector), turns, std::move(info), std::move(sink), std::move(store), key, bytes));
}

}  // namespace svc
