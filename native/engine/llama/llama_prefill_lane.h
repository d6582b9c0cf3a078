// The PrefillLane over a second llama_context of the same model.
//
// libllama computes a batch in one call. The scheduler of ggml can be told to stop at certain nodes
// of the graph and to ask a callback whether to go on: there the call is held. It runs on a thread
// of its own, and the two threads pass a baton: exactly one of them runs at any time, so neither
// libllama nor the thread pool, which both contexts share, ever sees two.
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
#include "engine/model/prefill_lane.h"
#include "llama.h"

namespace svc {

class LlamaPrefillLane final : public PrefillLane {
 public:
  // How its context is set up beside one of `params`; also for a dry run.
  static llama_context_params Params(llama_context_params params, std::uint32_t cells);
  // The model must outlive the lane. Null: there is no memory for it.
  static std::unique_ptr<LlamaPrefillLane> New(llama_model* model, llama_context_params params);
  ~LlamaPrefillLane() override;
  LlamaPrefillLane(const LlamaPrefillLane&) = delete;
  LlamaPrefillLane& operator=(const LlamaPrefillLane&) = delete;

  // For what is computed from now on. The pool must outlive the lane; null: none.
  void SetThreads(ggml_threadpool* pool, int threads);

  std::uint32_t max_rows() const override;
  std::uint32_t cells() const override;
  int threads() const override;
  void Clear() override;
  bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                 std::uint32_t end) override;
  void Begin(std::span<const Token> tokens, std::uint32_t padding) override;
  Progress Advance(Stretch stretch, const std::atomic<bool>& abort) override;
  const float* Logits() override;
  std::vector<std::uint8_t> SaveState(std::uint32_t begin, std::uint32_t end) override;

 private:
  LlamaPrefillLane() = default;

  // Who has the baton.
  enum class Turn { kOwner, kLane, kEnd };

  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  void Run();
  Progress Compute();
  bool MayGoOn();
  void Pass(Turn from, Turn to);
  static bool AtNode(ggml_tensor* tensor, bool ask, void* lane);

  ContextPtr context_;

  std::mutex mutex_;
  std::condition_variable passed_;
  Turn turn_ = Turn::kOwner;  // under mutex_

  // ---- of whoever has the baton ----
  std::vector<llama_token> tokens_;  // of the batch
  std::uint32_t padding_ = 0;        // at its end
  BatchRows batch_;
  bool computing_ = false;
  bool given_up_ = false;
  const std::atomic<bool>* abort_ = nullptr;
  std::atomic<bool> aborted_ = false;  // it was seen to be set
  int nodes_ = 0;                      // of the graph since the last stop
  int nodes_to_stop_ = 0;
  Progress progress_ = Progress::kDone;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace svc
