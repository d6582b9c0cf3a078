#include "engine/llama/llama_prefill_lane.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "engine/llama/log_capture.h"

namespace svc {
namespace {

// Rows of a batch, as in a plain llama.cpp loop; larger batches are no faster.
constexpr std::uint32_t kRows = 512;
// Graph nodes between stops; a transformer layer has about kNodesOfLayer. A stop costs a tenth of a
// millisecond: the baton is passed there and back, and the next part of the graph is started.
constexpr int kNodesOfLayer = 32;
constexpr int kNodesOfPart = 8;

// libllama can save only sequences below n_seq_max, which is 1, so states go through a scratch
// sequence.
constexpr llama_seq_id kLaneScratch = 0;
constexpr llama_seq_id kPrompt = 1;

}  // namespace

llama_context_params LlamaPrefillLane::Params(llama_context_params params, std::uint32_t cells) {
  params.n_ctx = cells;
  params.n_batch = std::min(kRows, params.n_batch);
  params.n_ubatch = params.n_batch;
  params.n_outputs_max = 1;
  params.n_outputs_max_per_seq = 1;
  return params;
}

std::unique_ptr<LlamaPrefillLane> LlamaPrefillLane::New(llama_model* model,
                                                        llama_context_params params,
                                                        std::vector<llama_adapter_lora*> adapters) {
  std::unique_ptr<LlamaPrefillLane> lane(new LlamaPrefillLane());
  lane->adapters_ = std::move(adapters);
  params.cb_eval = AtNode;
  params.cb_eval_user_data = lane.get();
  params.abort_callback = [](void* user) {
    auto* const self = static_cast<LlamaPrefillLane*>(user);
    self->aborted_ = self->abort_ != nullptr && self->abort_->load(std::memory_order_relaxed);
    return self->aborted_.load();
  };
  params.abort_callback_data = lane.get();
  const LogCapture log;
  lane->context_.reset(llama_init_from_model(model, params));
  if (lane->context_ == nullptr) return nullptr;
  try {
    lane->thread_ = std::thread([raw = lane.get()] { raw->Run(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  return lane;
}

LlamaPrefillLane::~LlamaPrefillLane() {
  if (!thread_.joinable()) return;
  Clear();
  Pass(Turn::kOwner, Turn::kEnd);
  thread_.join();
}

void LlamaPrefillLane::SetThreads(ggml_threadpool* pool, int threads) {
  if (pool != nullptr) llama_attach_threadpool(context_.get(), pool, pool);
  llama_set_n_threads(context_.get(), threads, threads);
}

// ---- the baton ----------------------------------------------------------------------------------

// Passes the baton. Returns when it has come back; with kEnd at once.
void LlamaPrefillLane::Pass(Turn from, Turn to) {
  std::unique_lock lock(mutex_);
  turn_ = to;
  passed_.notify_all();
  if (to == Turn::kEnd) return;
  passed_.wait(lock, [&] { return turn_ == from; });
}

void LlamaPrefillLane::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      passed_.wait(lock, [this] { return turn_ != Turn::kOwner; });
      if (turn_ == Turn::kEnd) return;
    }
    try {
      progress_ = Compute();
    } catch (const std::exception&) {
      progress_ = Progress::kFailed;
    }
    computing_ = false;
    const std::lock_guard lock(mutex_);
    turn_ = Turn::kOwner;
    passed_.notify_all();
  }
}

PrefillLane::Progress LlamaPrefillLane::Compute() {
  const std::size_t wanted = tokens_.size() - padding_;
  const llama_pos begin = llama_memory_seq_pos_max(memory(), kPrompt) + 1;
  batch_.Clear();
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const bool padding = i >= wanted;
    const auto position =
        static_cast<llama_pos>(padding ? i - wanted : static_cast<std::size_t>(begin) + i);
    batch_.Add(tokens_[i], position, padding ? kLaneScratch : kPrompt,
               /*wants_logits=*/i + 1 == wanted);
  }

  nodes_ = 0;
  aborted_ = false;
  const AbortedLog log(aborted_);
  const int code = llama_decode(context_.get(), batch_.Batch());
  llama_memory_seq_rm(memory(), kLaneScratch, -1, -1);
  if (given_up_ || code == 2) return Progress::kAborted;
  return code == 0 ? Progress::kDone : Progress::kFailed;
}

// ggml's callback. ask: returns whether to stop after this node. Otherwise: returns whether to
// continue.
bool LlamaPrefillLane::AtNode(ggml_tensor* /*tensor*/, bool ask, void* lane) {
  auto* const self = static_cast<LlamaPrefillLane*>(lane);
  // "No" ends only the part of the graph that one backend computes, and the next part begins. When
  // the batch is abandoned, each further part ends after its first node.
  if (self->given_up_) return ask;
  if (ask) return ++self->nodes_ >= self->nodes_to_stop_;
  return self->MayGoOn();
}

bool LlamaPrefillLane::MayGoOn() {
  // libllama also computes while it creates a context.
  if (!computing_) return true;
  nodes_ = 0;
  progress_ = Progress::kMore;
  Pass(Turn::kLane, Turn::kOwner);
  return !given_up_;
}

// ---- for the owner ------------------------------------------------------------------------------

std::uint32_t LlamaPrefillLane::length() const {
  return static_cast<std::uint32_t>(llama_memory_seq_pos_max(memory(), kPrompt) + 1);
}

void LlamaPrefillLane::Begin(std::span<const Token> tokens, std::uint32_t padding) {
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.resize(tokens.size() + padding, 0);
  padding_ = padding;
  computing_ = true;
}

PrefillLane::Progress LlamaPrefillLane::Advance(Stretch stretch, const std::atomic<bool>& abort) {
  nodes_to_stop_ = stretch == Stretch::kLayer ? kNodesOfLayer : kNodesOfPart;
  abort_ = &abort;
  Pass(Turn::kOwner, Turn::kLane);
  abort_ = nullptr;
  return progress_;
}

void LlamaPrefillLane::Clear() {
  // A batch that has been begun but not advanced needs no unwinding.
  if (computing_ && progress_ == Progress::kMore) {
    given_up_ = true;
    Pass(Turn::kOwner, Turn::kLane);
    given_up_ = false;
  }
  computing_ = false;
  progress_ = Progress::kDone;
  llama_memory_clear(memory(), /*data=*/false);
}

bool LlamaPrefillLane::LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                                 std::uint32_t end) {
  if (LoadSequence(context_.get(), kLaneScratch, state) != state.size()) return false;
  const auto first = static_cast<llama_pos>(begin);
  const auto last = static_cast<llama_pos>(end);
  const bool holds_all = llama_memory_seq_pos_min(memory(), kLaneScratch) <= first &&
                         llama_memory_seq_pos_max(memory(), kLaneScratch) + 1 == last;
  if (holds_all) llama_memory_seq_cp(memory(), kLaneScratch, kPrompt, first, last);
  llama_memory_seq_rm(memory(), kLaneScratch, -1, -1);
  return holds_all;
}

StateBytes LlamaPrefillLane::SaveState(std::uint32_t begin, std::uint32_t end) {
  llama_memory_seq_cp(memory(), kPrompt, kLaneScratch, static_cast<llama_pos>(begin),
                      static_cast<llama_pos>(end));
  StateBytes state = SaveSequence(context_.get(), kLaneScratch);
  llama_memory_seq_rm(memory(), kLaneScratch, -1, -1);
  return state;
}

}  // namespace svc
