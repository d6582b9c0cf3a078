// The prefill lane: a second llama context beside the decoder's, in which one long prompt at a time
// is computed in large batches. A batch can be suspended and resumed between any two layers.
//
// Why: large batches delay decoding generations, and small ones are slow. Attention has a faster
// kernel for 64 rows and more; behind a long prompt on a CPU it is several times as fast. A prompt
// cut into pieces too small to be noticed takes twice as long. In the lane, a prompt takes about as
// long as alone, and decoding steps run in the decoder's own cache between its layers. Finished
// batches are copied to the decoder's cache, which costs a thousandth of computing them. So the
// lane holds nothing that cannot be recomputed.
//
// Owner: the Decoder. Thread: the runner thread only; an implementation may use another one while
// the runner thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/state_bytes.h"
#include "engine/model/decoder.h"

namespace svc {

class PrefillLane {
 public:
  virtual ~PrefillLane() = default;

  // Maximum rows of a batch, padding included.
  virtual std::uint32_t max_rows() const = 0;
  // Size of its cache, in cells.
  virtual std::uint32_t cells() const = 0;
  // Number of tokens in its cache. REQUIRES: no batch has been begun.
  virtual std::uint32_t length() const = 0;
  // Compute threads of a batch; see Decoder::SetThreads.
  virtual int threads() const = 0;

  // Empties the cache and abandons a batch that has been begun.
  virtual void Clear() = 0;
  // As Decoder::SetAdapters, for the following batches. REQUIRES: the cache is empty, and no batch
  // has been begun.
  virtual void SetAdapters(const AdapterSet& adapters) = 0;
  // Loads the tokens [begin, end) of a prompt from a state that Decoder::SaveState returned.
  // REQUIRES: it has the tokens before `begin`, and no batch has been begun. False: it failed;
  // Clear must follow.
  virtual bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                         std::uint32_t end) = 0;
  // Begins a batch with the next tokens of the prompt. Logits() returns those of its last token
  // once it is done. `padding`: number of padding rows computed with it, because that is cheaper.
  // REQUIRES: no batch has been begun; tokens and padding fit.
  virtual void Begin(std::span<const Token> tokens, std::uint32_t padding) = 0;

  enum class Progress { kMore, kDone, kAborted, kFailed };
  // How much of a batch to compute before it is suspended again; each suspension costs time.
  enum class Stretch { kPartOfLayer, kLayer };
  // Computes about one stretch of the batch. kMore: the batch is suspended. Otherwise it has ended;
  // after kAborted and kFailed Clear must follow. `abort` as in Decoder::Decode.
  virtual Progress Advance(Stretch stretch, const std::atomic<bool>& abort) = 0;
  // Logits of the last token of the finished batch: vocabulary() floats, valid until the next
  // Begin.
  virtual const float* Logits() = 0;

  // Serialized tokens [begin, end) for Decoder::LoadState. Empty: not possible.
  virtual StateBytes SaveState(std::uint32_t begin, std::uint32_t end) = 0;
};

}  // namespace svc
