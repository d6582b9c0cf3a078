// PrefillLane over a second llama_context of the same model.
//
// libllama computes a batch in one call. ggml's scheduler can be told to stop after certain nodes
// of the graph and to ask a callback whether to continue: there the call is suspended. It runs on a
// thread of its own, and that thread and the owner pass a baton: exactly one of the two runs at any
// time. So neither libllama nor the thread pool, which both contexts share, is ever used by two
// threads at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/llama/batch_rows.h"
#include "engine/llama/llama_context_ptr.h"
#include "engine/llama/lora/adapters.h"
#include "engine/model/prefill_lane.h"
#include "llama.h"

namespace svc {

class LlamaPrefillLane final : public PrefillLane {
 public:
  // Parameters of the lane's context, derived from the decoder's; also for a dry run
  // (memory_estimate.h).
  static llama_context_params Params(llama_context_params params, std::uint32_t cells);
  // Creates a lane. `adapters`: those of the model. Null: not enough memory. The model must outlive
  // the lane.
  static std::unique_ptr<LlamaPrefillLane> New(llama_model* model, llama_context_params params,
                                               std::vector<llama_adapter_lora*> adapters = {});
  ~LlamaPrefillLane() override;
  LlamaPrefillLane(const LlamaPrefillLane&) = delete;
  LlamaPrefillLane& operator=(const LlamaPrefillLane&) = delete;

  // Sets the threads for everything computed from now on. pool: null means none; it must outlive
  // the lane.
  void SetThreads(ggml_threadpool* pool, int threads);

  std::uint32_t max_rows() const override { return llama_n_batch(context_.get()); }
  std::uint32_t cells() const override { return llama_n_ctx(context_.get()); }
  std::uint32_t length() const override;
  int threads() const override { return llama_n_threads(context_.get()); }
  void Clear() override;
  void SetAdapters(const AdapterSet& adapters) override {
    UseAdapters(context_.get(), adapters_, adapters);
  }
  bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override;
  void Begin(std::span<const Token> tokens, std::uint32_t padding) override;
  Progress Advance(Stretch stretch, const std::atomic<bool>& abort) override;
  const float* Logits() override { return llama_get_logits_ith(context_.get(), -1); }
  StateBytes SaveState(std::uint32_t begin, std::uint32_t end) override;

 private:
  LlamaPrefillLane() = default;

  // Holder of the baton.
  enum class Turn { kOwner, kLane, kEnd };

  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  void Run();
  Progress Compute();
  bool MayGoOn();
  void Pass(Turn from, Turn to);
  static bool AtNode(ggml_tensor* tensor, bool ask, void* lane);

  ContextPtr context_;
  std::vector<llama_adapter_lora*> adapters_;

  std::mutex mutex_;
  std::condition_variable passed_;
  Turn turn_ = Turn::kOwner;  // under mutex_

  // ---- used only by the holder of the baton ----
  std::vector<llama_token> tokens_;  // of the batch, padding at the end
  std::uint32_t padding_ = 0;        // number of padding tokens
  BatchRows batch_;
  bool computing_ = false;
  bool given_up_ = false;
  const std::atomic<bool>* abort_ = nullptr;
  std::atomic<bool> aborted_ = false;  // *abort_ was seen set
  int nodes_ = 0;                      // graph nodes since the last stop
  int nodes_to_stop_ = 0;
  Progress progress_ = Progress::kDone;

  std::thread thread_;  // last: it uses the other members
};

}  // namespace svc
