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
    if (Status status = media.Prepare(&request.messages); !status.ok()) return status;
    const WorkLimit limit;
    if (request.messages.empty()) {
      Result<std::vector<Token>> tokens = RawTokens(request, /*context_length=*/0);
      if (!tokens.ok()) return tokens.status();
      std::string text = model().Detokenize(tokens.value(), /*special=*/true);
      return RenderedPrompt{std::move(text), std::move(tokens.value())};
    }
    Result<std::string> text = chat_->Render(request.messages, request.chat);
    if (!text.ok()) return text.status();
    Result<ChatPrompt> prompt = chat_->RenderTokens(request.messages, request.chat);
    if (!prompt.ok()) return prompt.status();
    return RenderedPrompt{std::move(text.value()), std::move(prompt.value().tokens)};
  }

  Result<std::uint32_t> Submit(GenerationRequest request) override {
    Result<AdapterSet> adapters = adapters_.loaded.Choose(request.lora);
    if (!adapters.ok()) return adapters.status();
    // Before the limit on time begins: a picture may take seconds.
    PromptMedia media(projector_.get(), this->info(), &media_requests_, request.id);
    if (Status status = media.Prepare(&request.messages); !status.ok()) return status;
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
    submission.adapters = std::move(adapters.value());
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
    Result<AnswerRules> rules = rules_.Make(std::move(format), request.grammar, budget);
    if (!rules.ok()) return rules.status();
    submission.reader = std::move(rules.value().reader);
    submission.spelled = std::move(rules.value().spelled);
    const std::vector<Token> seen = WithoutMedia(submission.prompt);
    submission.lists_tokens = request.continuation.has_value();
    Continuation continuation = std::move(request.continuation).value_or(Continuation{});
    if (submission.lists_tokens && !request.sampling.seed)
      request.sampling.seed = continuation.seed;
    SamplerOptions options{.params = request.sampling,
                           .prompt = seen,
                           .constraint = std::move(rules.value().constraint),
                           .known = std::move(continuation.tokens),
                           .logprobs = request.logprobs,
                           .piece = [this](Token token) { return model().Piece(token, true); }};
    Result<std::unique_ptr<Sampler>> sampler = NewSampler(model().vocab(), std::move(options));
    if (!sampler.ok()) return sampler.status();
    submission.sampler = std::move(sampler.value());
    limit.reset();
    Result<std::vector<MediaRows>> rows = media.Encode(submission.prompt);
    if (!rows.ok()) return rows.status();
    submission.media = std::move(rows.value());

    if (Status status = runner_.Submit(std::move(submission)); !status.ok()) return status;
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
    Result<std::vector<Token>> tokens = RawTokens(request, bound);
    if (!tokens.ok()) return tokens.status();
    submission->prompt = std::move(tokens.value());
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
      Result<CutPrompt> fitting = CutChat(*chat_, request.messages, request.chat,
                                          BudgetOf(info().context_length, request.max_tokens));
      if (!fitting.ok()) return fitting.status();
      cut = std::move(fitting.value());
      submission->truncated_tokens = cut.truncated_tokens;
    } else {
      Result<ChatPrompt> prompt =
          chat_->RenderTokens(request.messages, request.chat, info().context_length);
      if (!prompt.ok()) return prompt.status();
      cut.prompt = std::move(prompt.value());
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
  Result<std::unique_ptr<ChatRenderer>> chat = ChatRenderer::New(*model);
  if (!chat.ok()) return chat.status();

  ModelInfo info = model->Describe();
  ScopedAdapters adapters = LoadAdapters(options, *model);
  info.adapters = adapters.loaded.infos();
  DecoderOptions decoder_options = DecoderOptionsOf(options, *model);
  decoder_options.adapters = adapters.loaded.handles();
  const auto pools = std::make_shared<ThreadPools>();
  Result<std::unique_ptr<Decoder>> decoder = NewLlamaDecoder(*model, decoder_options, pools);
  if (!decoder.ok()) return decoder.status();
  DraftModel draft;
  if (!options.draft_path.empty()) {
    Result<DraftModel> loaded =
        LoadDraftModel(options, *model, *decoder.value(), decoder_options.threads, pools);
    if (!loaded.ok()) return loaded.status();
    draft = std::move(loaded.value());
  }

  const SipKey key = options.prefix_key.value_or(RandomKey());
  const auto turns = std::make_shared<MediaTurns>();
  Result<std::unique_ptr<Projector>> projector =
      LoadProjector(options, *model, decoder_options.threads, decoder.value()->max_rows(), key,
                    turns, &info.projector_refusal);
  if (!projector.ok()) return projector.status();

  info.context_length = decoder.value()->max_cells();
  info.threads = decoder_options.threads;
  info.draft_refusal = draft.refusal;
  info.calls_tools = chat.value()->calls_tools();
  info.thinks = chat.value()->thinks();
  info.sees = projector.value() != nullptr && projector.value()->sees();
  info.hears = projector.value() != nullptr && projector.value()->hears();
  const auto bytes = std::make_shared<std::atomic<std::uint64_t>>(options.prefix_bytes);
  std::unique_ptr<PrefixStore> store =
      OpenPrefixStore(options, *decoder.value(), model->turning_length(), key, bytes);
  return std::unique_ptr<Engine>(std::make_unique<LlamaTextEngine>(
      std::move(model), std::move(adapters), std::move(chat.value()), std::move(decoder.value()),
      std::move(draft), std::move(projector.value()), turns, std::move(info), std::move(sink),
      std::move(store), key, bytes));
}

}  // namespace svc
