// All generations of one model, advanced a step at a time.
//
//   Add, SetPaused, Cancel ──► [ Plan ──► Compute ──► TakeOutputs ] ──► ...
//
// Plan decides who is in the cache and what the next step computes, Compute does it and samples.
// Between the two the caller may still find that nobody wants the batch, and leave it.
//
// All generations live in one list in order of arrival. A generation is waiting (no sequence id) or
// in the cache. The waiting ones are admitted in the order that scheduler.h describes, each when a
// sequence id and cells for all its tokens are free or can be freed; for that, paused ones and less
// urgent prompts that are still being computed go back to wait. Nobody overtakes one that waits for
// room. What the prefix cache has of its tokens it need not compute. While another computes a
// prompt that begins like its own, it waits for that prompt's chunks to appear there instead of
// computing them too; the other one, the leader, is then as urgent as its most urgent follower.
//
// While a generation decodes it takes one cell a step. When the cells run out, prefixes that nobody
// uses are evicted; then generations are preempted, paused ones first, then the most junior: what
// they have computed goes to the prefix cache, and what is lost of it by the time they return is
// computed again. Preempting changes when a generation ends, never what it says. The most senior
// that is not paused is never preempted, so there is always one that moves on.
//
// A failure of the device fails the generations of that batch; the others go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "engine/cost_model.h"
#include "engine/decoder.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/prefix_cache.h"
#include "engine/rate_meter.h"
#include "engine/scheduler.h"
#include "engine/thread_governor.h"

namespace svc {

struct LoopOptions {
  CostModel cost;
  // Spent on measuring the cost of steps. 0: `cost` is it.
  double measure_ms = 0;
  StepTargets targets;
  Now now = Clock::now;
  // Processor time of the process, in milliseconds. Absent: the threads stay as they are.
  std::function<double()> cpu_ms;
};

// Owner: the Runner. Thread: one at a time.
class Loop {
 public:
  Loop(std::unique_ptr<Decoder> decoder, LoopOptions options);

  // Before anything else, on the thread that will compute: drivers of GPUs may want no other one.
  void Measure();

  // REQUIRES: no generation alive has its id.
  void Add(Submission submission);
  // Ids of generations that have ended are ignored.
  void SetPaused(GenerationId id, bool paused);
  void Cancel(GenerationId id);
  void CancelAll();

  bool HasWork() const;
  // Prepares a step; false: there is nothing to compute.
  bool Plan();
  const std::vector<GenerationId>& planned() const { return planned_; }
  // Computes what was planned. `abort` may be set by another thread at any time.
  void Compute(const std::atomic<bool>& abort);

  // What has been said and ended since the last call.
  std::vector<GenerationOutput> TakeOutputs();

  // All but step_age_ms.
  EngineStats stats() const;

 private:
  // A generation's part of the batch.
  struct Part {
    Generation* generation;
    std::uint32_t rows;
    std::size_t last_row;
  };

  Generation* Find(GenerationId id);
  std::vector<Generation*> InOrder(bool in_cache) const;
  double Remaining(std::uint32_t rows) const;
  double Deadline(const Generation& generation) const;
  std::uint32_t Cached(const Generation& generation) const;

  void Admit();
  bool FollowsAnother(const Generation& candidate, std::uint32_t cached);
  bool EnterCache(Generation& candidate);
  bool MakeWayOfPaused();
  bool MakeWayOfPrompt(const Generation& candidate);
  void LeaveCache(Generation& generation, bool keep_prefix);
  void Publish(Generation& generation);
  void MakeRoom();
  bool PreemptOne();

  void Pad();
  DecodeOutcome Decode(const std::atomic<bool>& abort, StepStats& step);
  void Recover(DecodeOutcome outcome);
  void Sample(Generation& generation, std::size_t row);
  // Adds the token, with which the text is `whole`, and its text. True: the generation has ended.
  bool Take(Generation& generation, Token token, bool whole, std::string* text);
  void Finish(Generation& generation, GenerationOutput output, bool keep_prefix = true);

  std::uint32_t FreeCells() const;
  // Free, or free as soon as they are wanted.
  std::uint32_t AvailableCells() const { return FreeCells() + cache_.evictable(); }

  const std::unique_ptr<Decoder> decoder_;
  const StepTargets targets_;
  const Now now_;
  const std::function<double()> cpu_ms_;
  const bool has_spare_ids_;  // for the prefix cache and for padding
  CostModel cost_;
  const double measure_ms_;
  ThreadGovernor threads_;
  PrefixCache cache_;

  std::vector<std::unique_ptr<Generation>> generations_;  // in order of arrival
  std::set<SequenceId> free_sequences_;
  std::uint32_t own_cells_ = 0;  // of all generations
  // Something has changed since Admit could do no more.
  bool may_admit_ = false;

  std::vector<Part> parts_;
  std::vector<GenerationId> planned_;
  std::vector<Row> rows_;
  std::uint32_t padding_ = 0;  // of them, at the end

  std::vector<GenerationOutput> outputs_;
  EngineStats counts_;  // the counters of stats()
  RateMeter rate_;
};

}  // namespace svc
