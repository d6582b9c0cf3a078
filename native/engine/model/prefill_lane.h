// A second cache beside the decoder's, in which one prompt at a time is computed in large batches
// that can be left and taken up again between any two layers.
//
// What a step costs and how long it keeps others waiting are at odds: attention has a kernel for 64
// rows and more, which on a processor is several times as fast, behind a long prompt, as the one
// for fewer; so a prompt cut so small that those who decode hardly notice it takes twice as long.
// In the lane it takes as long as alone, and those who decode get their steps, in the decoder's own
// cache, between its layers. Batches are moved to the decoder's cache as they are done, which costs
// a thousandth of computing them; so the lane is a place to compute in, and holds nothing that
// cannot be had again.
//
// Owner: the Decoder. Thread: the runner thread only; an implementation may use another one while
// the runner thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/decoder.h"

namespace svc {

class PrefillLane {
 public:
  virtual ~PrefillLane() = default;

  // Of a batch.
  virtual std::uint32_t max_rows() const = 0;
  // Of its cache.
  virtual std::uint32_t cells() const = 0;
  // That compute a batch; see Decoder::SetThreads.
  virtual int threads() const = 0;

  // It is as empty as when it was made; a batch that has been begun is given up.
  virtual void Clear() = 0;
  // Takes in the tokens [begin, end) of a prompt, as Decoder::SaveState has them. REQUIRES: it has
  // those before, and no batch has been begun. False: it failed, and has to be cleared.
  virtual bool LoadState(std::span<const std::uint8_t> state, std::uint32_t begin,
                         std::uint32_t end) = 0;
  // Begins the batch that comes behind what it has. REQUIRES: none has been begun, it fits. The
  // last row's logits can be had when it is done.
  // `padding`: so many rows that nobody wants are computed beside them, since that is cheaper; they
  // fit, too.
  virtual void Begin(std::span<const Token> tokens, std::uint32_t padding) = 0;

  enum class Progress { kMore, kDone, kAborted, kFailed };
  // How much of a batch to compute before it can be left: each stop costs something, too.
  enum class Stretch { kPartOfLayer, kLayer };
  // Computes so much of the batch, about. Unless there is more, no batch is begun any more; where
  // it was not done the lane has to be cleared. `abort` as in Decoder::Decode.
  virtual Progress Advance(Stretch stretch, const std::atomic<bool>& abort) = 0;
  // vocabulary() floats for the last row of the batch just done; valid until the next one begins.
  virtual const float* Logits() = 0;

  // Its tokens [begin, end), for Decoder::LoadState. Empty: there is none to be had.
  virtual std::vector<std::uint8_t> SaveState(std::uint32_t begin, std::uint32_t end) = 0;
};

}  // namespace svc
