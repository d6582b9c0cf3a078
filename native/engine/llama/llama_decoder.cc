// How the context is set up, and why:
//   * kv_unified: any sequence may use any cell, and sequence ids up to 255 cost nothing. n_seq_max
//     stays 1, because libllama sizes host buffers by it. Recurrent and hybrid models keep a state
//     for each of n_seq_max sequences, so there the number of ids is n_seq_max, and small.
//   * Id 0 is our scratch sequence where n_seq_max is 1: libllama can save only the state of ids
//     below n_seq_max. A sequence to be saved is shared with the scratch sequence first.
//   * swa_full: layers with a sliding window keep all cells. The small window cache is sized by
//     n_seq_max and would be full with the second sequence. Even so, cells that have left the
//     window of their sequence may be reused: such a model cannot share cells.
//   * n_outputs_max: logits for at most max_outputs() rows; otherwise libllama reserves a buffer of
//     n_batch x vocabulary floats. n_outputs_max_per_seq matters only for samplers on the device.
//   * n_batch = n_ubatch: a step is one graph run, so that an abort leaves nothing half done. A GPU
//     with enough memory gets larger batches, which it needs to be busy.
//   * Thread pools of our own: without one, each decode starts and joins threads. One pool for each
//     number of threads in use, because pool threads that take no part in a step spin while they
//     wait for the next one; threads of a pool that is not attached sleep.
//
// On a CPU there is a prefill lane. It has a quarter of the cells or, for a longer prompt, half or
// all of them, as far as the memory for copies allows: a lane that grows takes it from the
// swapped-out prefixes. A GPU needs no lane: it computes large batches without a noticeable delay,
// and has no memory to spare.
#include "engine/llama/llama_decoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <vector>

#include "engine/llama/batch_rows.h"
#include "engine/llama/cpu_threads.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/llama/llama_prefill_lane.h"
#include "engine/llama/log_capture.h"
#include "engine/llama/lora/adapters.h"
#include "engine/llama/row_positions.h"
#include "engine/llama/step_watch.h"

namespace svc {
namespace {

constexpr llama_seq_id kScratch = 0;

// A CPU walks over every cell up to the last one in use: with half a billion weights, 12,000 idle
// cells make a row half as slow again. So only a few stay: too few to slow a step noticeably,
// enough for a short prompt to be reused without a copy.
constexpr std::uint32_t kIdleCells = 64;

// Each row sees all others of its batch, also those behind it.
class NonCausal {
 public:
  explicit NonCausal(llama_context* context) : context_(context) {
    llama_set_causal_attn(context_, false);
  }
  ~NonCausal() { llama_set_causal_attn(context_, true); }
  NonCausal(const NonCausal&) = delete;
  NonCausal& operator=(const NonCausal&) = delete;

 private:
  llama_context* const context_;
};

// Memory for copies and for the prefill lane, in cells.
struct LaneBounds {
  std::uint32_t copied = 0;  // of all copies, beside the smallest lane
  std::uint32_t least_lane = 0;
  std::uint32_t lane = 0;  // of the largest lane; 0: no lane
};

class LlamaDecoder final : public Decoder {
 public:
  // `context` was created with `params`.
  LlamaDecoder(const LlamaModel& model, std::shared_ptr<ThreadPools> pools, ContextPtr context,
               const llama_context_params& params, const DecoderOptions& options)
      : model_(model),
        pools_(std::move(pools)),
        context_(std::move(context)),
        params_(params),
        options_(options),
        max_cells_(std::max(options.context_length, llama_n_ctx(context_.get()))),
        threads_(options.threads),
        on_cpu_(model.device() == "CPU"),
        max_sequences_(SequencesOf(model, options)),
        can_share_(CanShareCells(model)),
        first_id_(model.is_recurrent() ? 0 : kScratch + 1) {
    Adopt();
  }

  void SetAdapters(const AdapterSet& adapters) override {
    if (adapters == used_adapters_) return;
    UseAdapters(context_.get(), options_.adapters, adapters);
    used_adapters_ = adapters;
  }

  DecodeOutcome Decode(std::span<const Row> rows, const std::atomic<bool>& abort) override {
    watch_.Begin(abort);
    const AbortedLog log(watch_.aborted());
    DecodeOutcome outcome = DecodeMedia(rows);
    if (outcome == DecodeOutcome::kDone) outcome = DecodeTokens(rows);
    watch_.End();
    return outcome;
  }

  const float* Logits(std::size_t index) override {
    return llama_get_logits_ith(context_.get(), token_rows_.IndexOf(index));
  }

  std::int32_t NextPosition(SequenceId sequence) const override {
    const llama_pos last = llama_memory_seq_pos_max(memory(), Id(sequence));
    return static_cast<std::int32_t>(positions_.Next(sequence, last));
  }
  void RemoveSequence(SequenceId sequence) override {
    positions_.Cut(sequence, -1);
    llama_memory_seq_rm(memory(), Id(sequence), -1, -1);
  }

  void Clear() override {
    lane_ = nullptr;
    positions_.Clear();
    llama_memory_clear(memory(), /*data=*/false);
    SetThreads(options_.threads);
  }

  bool can_share() const override { return can_share_; }
  void ShareCells(SequenceId from, SequenceId to, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_cp(memory(), Id(from), Id(to), positions_.Of(from, begin),
                        positions_.Of(from, end));
    positions_.Share(from, to, end);
  }
  void RemoveCells(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    llama_memory_seq_rm(memory(), Id(sequence), positions_.Of(sequence, begin),
                        positions_.Of(sequence, end));
    positions_.Cut(sequence, llama_memory_seq_pos_max(memory(), Id(sequence)));
  }

  std::uint64_t SizeOfState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    const std::uint64_t bytes =
        llama_state_seq_get_size(context_.get(), Lend(sequence, begin, end));
    GiveBack();
    return bytes + positions_.SizeOf(sequence, end);
  }
  StateBytes SaveState(SequenceId sequence, std::uint32_t begin, std::uint32_t end) override {
    const std::size_t pictures = positions_.SizeOf(sequence, end);
    StateBytes state = SaveSequence(context_.get(), Lend(sequence, begin, end), pictures);
    GiveBack();
    if (!state.empty()) positions_.Save(sequence, end, std::span(state).last(pictures));
    return state;
  }
  bool LoadState(SequenceId sequence, std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override {
    const llama_seq_id id = has_scratch() ? kScratch : Id(sequence);
    const std::size_t bytes = LoadSequence(context_.get(), id, state);
    bool loaded = bytes > 0 && positions_.Load(sequence, state.subspan(bytes), end) &&
                  llama_memory_seq_pos_max(memory(), id) >= positions_.Of(sequence, end - 1);
    const llama_pos first = positions_.Of(sequence, begin);
    if (can_share_) loaded = loaded && llama_memory_seq_pos_min(memory(), id) <= first;
    if (has_scratch()) {
      if (loaded) {
        llama_memory_seq_cp(memory(), kScratch, Id(sequence), first, positions_.Of(sequence, end));
      }
      llama_memory_seq_rm(memory(), kScratch, -1, -1);
    } else if (!loaded) {
      llama_memory_seq_rm(memory(), id, -1, -1);
    }
    if (!loaded) positions_.Cut(sequence, llama_memory_seq_pos_max(memory(), Id(sequence)));
    return loaded;
  }

  std::uint32_t idle_cells() const override {
    return on_cpu_ ? std::min(kIdleCells, cells_total()) : cells_total();
  }

  std::uint32_t lane_cells() const override { return bounds_.lane; }
  PrefillLane* lane(std::uint32_t tokens) override {
    if (lane_ != nullptr && lane_params_.n_ctx >= tokens) return lane_.get();
    const std::uint32_t cells = LaneFor(tokens);
    lane_ = nullptr;  // freed before the new one is allocated
    lane_params_.n_ctx = cells;
    lane_ = LlamaPrefillLane::New(model_.get(), lane_params_, options_.adapters);
    if (lane_ != nullptr) {
      SetLaneThreads();
    } else {
      bounds_.lane = cells > bounds_.least_lane ? cells / 2 : 0;
    }
    return lane_.get();
  }
  void ShrinkLane() override {
    if (lane_ != nullptr && lane_params_.n_ctx > bounds_.least_lane) lane_ = nullptr;
  }

  std::uint32_t max_copied(std::uint32_t lane_tokens) const override {
    std::uint32_t cells = LaneFor(lane_tokens);
    if (lane_ != nullptr) cells = std::max(cells, lane_params_.n_ctx);
    return bounds_.copied - std::min(bounds_.copied, cells - bounds_.least_lane);
  }
  std::uint64_t max_state_bytes() const override {
    return StateCopyBytes(cache_bytes_, options_.state_size, cells_total());
  }

  bool IsEndOfGeneration(Token token) const override {
    return llama_vocab_is_eog(model_.vocab(), token);
  }
  std::string Piece(Token token) const override { return model_.Piece(token, /*special=*/false); }

  void SetStepLimit(double ms) override { watch_.SetLimit(ms); }
  void SetThreads(int threads) override {
    ggml_threadpool* const pool = pools_->Get(threads);
    if (pool != nullptr) llama_attach_threadpool(context_.get(), pool, pool);
    llama_set_n_threads(context_.get(), threads, threads);
    threads_ = threads;
    if (lane_ != nullptr) SetLaneThreads();
  }
  int max_threads() const override { return on_cpu_ ? options_.threads : 1; }

  std::uint32_t max_rows() const override { return llama_n_batch(context_.get()); }
  std::uint32_t max_outputs() const override { return MaxOutputsOf(max_sequences_); }
  std::uint32_t max_sequences() const override { return max_sequences_; }
  std::uint32_t sequence_ids() const override {
    return can_share_ ? kSequenceIds - static_cast<std::uint32_t>(first_id_) : max_sequences_;
  }
  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(llama_vocab_n_tokens(model_.vocab()));
  }
  std::uint32_t cells_total() const override { return llama_n_ctx(context_.get()); }

  std::uint32_t max_cells() const override { return max_cells_; }
  bool Grow(std::uint32_t cells) override {
    const std::uint32_t before = cells_total();
    // Freed before the new one is allocated: there is memory for one of them.
    lane_ = nullptr;
    context_ = nullptr;
    const LogCapture log;
    for (const std::uint32_t size : {cells, before}) {
      params_.n_ctx = size;
      context_.reset(llama_init_from_model(model_.get(), params_));
      if (context_ != nullptr) break;
    }
    // Nothing can be computed any more. The requests get a new process.
    if (context_ == nullptr) std::abort();
    Adopt();
    return cells_total() >= cells;
  }

 private:
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  llama_seq_id Id(SequenceId sequence) const { return sequence + first_id_; }
  static std::uint32_t IndexOf(const Row& row) { return static_cast<std::uint32_t>(row.position); }
  bool has_scratch() const { return first_id_ > kScratch; }

  // An id whose state libllama can save, with the sequence's tokens [begin, end); until GiveBack.
  llama_seq_id Lend(SequenceId sequence, std::uint32_t begin, std::uint32_t end) {
    if (!has_scratch()) return Id(sequence);
    llama_memory_seq_cp(memory(), Id(sequence), kScratch, positions_.Of(sequence, begin),
                        positions_.Of(sequence, end));
    return kScratch;
  }
  void GiveBack() {
    if (has_scratch()) llama_memory_seq_rm(memory(), kScratch, -1, -1);
  }

  // Sets up a new context, and what depends on its size.
  void Adopt() {
    cache_bytes_ = CacheBytes(context_.get());
    bounds_.copied = CopiedCells(cache_bytes_, cells_total());
    bounds_.least_lane = LaneCells(model_, cells_total());
    bounds_.lane = LargestLane(bounds_.least_lane, bounds_.copied, cells_total());
    lane_params_ = LlamaPrefillLane::Params(params_, bounds_.least_lane);
    SetThreads(threads_);
    UseAdapters(context_.get(), options_.adapters, used_adapters_);
    llama_set_abort_callback(context_.get(), StepWatch::IsToBeAborted, &watch_);
  }

  DecodeOutcome DecodeTokens(std::span<const Row> rows) {
    batch_.Clear();
    token_rows_.Clear();
    for (const Row& row : rows) {
      token_rows_.Add(/*is_token=*/row.media == nullptr);
      if (row.media != nullptr) continue;
      const llama_pos position = positions_.Of(row.sequence, IndexOf(row));
      batch_.Add(row.token, position, Id(row.sequence), row.wants_logits);
    }
    return batch_.size() == 0 ? DecodeOutcome::kDone : Run(batch_.Batch());
  }

  // Pictures and sounds, which libllama takes in batches without tokens: first those with causal
  // attention in one batch, then each of the others in a batch of its own.
  DecodeOutcome DecodeMedia(std::span<const Row> rows) {
    DecodeOutcome outcome =
        DecodeEmbeddings(rows, [](const Row& row) { return !row.media->is_whole; });
    const MediaRows* last = nullptr;
    for (const Row& row : rows) {
      if (outcome != DecodeOutcome::kDone) break;
      if (row.media == nullptr || !row.media->is_whole || row.media == last) continue;
      last = row.media;
      const NonCausal attention(context_.get());
      outcome = DecodeEmbeddings(rows, [&](const Row& each) { return each.media == last; });
    }
    return outcome;
  }

  template <typename Takes>
  DecodeOutcome DecodeEmbeddings(std::span<const Row> rows, Takes takes) {
    const auto is_taken = [&](const Row& row) { return row.media != nullptr && takes(row); };
    batch_.Clear();
    for (const Row& row : rows) {
      if (!is_taken(row)) continue;
      const MediaRows& media = *row.media;
      const std::uint32_t index = IndexOf(row);
      // Where a model has no M-RoPE, the row's position is its index.
      const llama_pos first = positions_.Of(row.sequence, media.begin);
      std::array<llama_pos, 4> place = {row.position};
      if (!media.places.empty()) place = media.places[index - media.begin].At(first);
      batch_.AddEmbedding({media.Row(index), media.width},
                          std::span(place).first(media.places.empty() ? 1 : place.size()),
                          Id(row.sequence));
    }
    if (batch_.size() == 0) return DecodeOutcome::kDone;
    const DecodeOutcome outcome = Run(batch_.Batch());
    if (outcome != DecodeOutcome::kDone) return outcome;
    for (const Row& row : rows) {
      if (is_taken(row)) positions_.Computed(row.sequence, *row.media, IndexOf(row) + 1);
    }
    return outcome;
  }

  DecodeOutcome Run(const llama_batch& batch) {
    int code = 0;
    try {
      code = llama_decode(context_.get(), batch);
    } catch (const std::exception&) {
      return DecodeOutcome::kFailed;
    }
    switch (code) {
      case 0:
        return DecodeOutcome::kDone;
      case 1:
        return DecodeOutcome::kNoCells;
      case 2:
        return DecodeOutcome::kAborted;
      default:
        return DecodeOutcome::kFailed;
    }
  }

  static std::uint32_t CopiedCells(std::uint64_t cache_bytes, std::uint32_t cells) {
    if (cache_bytes == 0) return cells;
    return static_cast<std::uint32_t>(static_cast<double>(CopyBytes(cache_bytes)) /
                                      static_cast<double>(cache_bytes) * cells);
  }
  // Largest size to which the lane may be doubled while its growth fits in the memory for copies.
  static std::uint32_t LargestLane(std::uint32_t least, std::uint32_t copied, std::uint32_t total) {
    std::uint32_t cells = least;
    while (cells > 0 && cells < total && std::min(cells * 2, total) - least <= copied) {
      cells = std::min(cells * 2, total);
    }
    return cells;
  }
  // Lane size for a prompt of `tokens` tokens: the initial size, doubled as often as needed.
  std::uint32_t LaneFor(std::uint32_t tokens) const {
    std::uint32_t cells = bounds_.least_lane;
    while (cells < std::min(tokens, bounds_.lane)) cells = std::min(cells * 2, bounds_.lane);
    return cells;
  }

  // The lane has its own number of threads while the steps use all of theirs; otherwise at most as
  // many as the steps.
  void SetLaneThreads() {
    const int most = lane_params_.n_threads_batch;
    const int threads = threads_ == max_threads() ? most : std::min(most, threads_);
    lane_->SetThreads(pools_->Get(threads), threads);
  }

  const LlamaModel& model_;
  const std::shared_ptr<ThreadPools> pools_;  // must outlive the context
  ContextPtr context_;
  llama_context_params params_;
  const DecoderOptions options_;
  const std::uint32_t max_cells_;

  // ---- set by Adopt ----
  llama_context_params lane_params_ = {};
  std::uint64_t cache_bytes_ = 0;
  LaneBounds bounds_;

  std::unique_ptr<LlamaPrefillLane> lane_;
  AdapterSet used_adapters_;
  int threads_;
  const bool on_cpu_;
  const std::uint32_t max_sequences_;
  const bool can_share_;
  const llama_seq_id first_id_;  // libllama's id for our sequence 0
  BatchRows batch_;
  TokenRows token_rows_;  // of the last Decode
  RowPositions positions_;
  StepWatch watch_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> NewLlamaDecoder(const LlamaModel& model,
                                                 const DecoderOptions& options,
                                                 std::shared_ptr<ThreadPools> pools) {
  const llama_context_params params = DecoderParams(model, options);
  const LogCapture log;
  ContextPtr context(llama_init_from_model(model.get(), params));
  if (context == nullptr) {
    return log.Failure("cannot create a cache of " + std::to_string(params.n_ctx) + " tokens");
  }
  if (llama_get_memory(context.get()) == nullptr) {
    return Status(StatusCode::kModelInvalid, "the model has no cache, so it cannot generate text");
  }
  return std::unique_ptr<Decoder>(
      std::make_unique<LlamaDecoder>(model, std::move(pools), std::move(context), params, options));
}

}  // namespace svc
