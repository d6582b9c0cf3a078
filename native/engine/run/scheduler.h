// The scheduler: which sequences get rows in the next step, and how many.
//
// A step is one call of the model over a batch of rows; all sequences share it. A sequence that
// decodes needs one row for its next token, which a reader is waiting for. A prompt needs thousands
// of rows before its first token.
//
// Step size. Every decoding sequence gets one row in every step; the other rows are prompt (chunked
// prefill). While anything decodes, the step must end within the inter-token target, and the cost
// model says how many rows that allows, but at least kLeastPromptRows, so that prompts advance. On
// a CPU the prompt loses little by this: rows beside decoding are cheaper than a step of their own.
// If the most urgent prompt fits into the step whole, the others get only the rows that the target
// leaves, so that its first token comes soon. Without decoding, only a request that has not arrived
// yet could wait for the step: its target is longer. Where the cost was not measured (on a GPU),
// the record of earlier steps replaces the cost model (step_record.h).
//
// Prompts that arrive together. If several short prompts were computed one after the other beside
// those that already decode, each step would be slightly larger than is efficient, and the requests
// would end one after the other in steps that are not full. So while every decoding sequence has
// had its first token only just now, such prompts are computed first, as long as the oldest of
// these sequences waits no longer than for a step of prompts.
//
// Cutting prompts. ggml's attention has one kernel for fewer than 64 rows, and another that takes
// 64 at a time and rounds differently. So the steps of a prompt are multiples of 64 rows, and a
// shorter rest joins the step before it. A prompt with Demand::plain gets bit-identical results to
// those of a plain llama.cpp loop with batches of 512: a rest that such a loop would compute alone
// is computed alone.
//
// The lane. A decoder may have a lane beside its cache, where a long prompt is computed in batches
// that can be interrupted between layers (prefill_lane.h). A prompt takes it if nothing decodes, or
// if it advances clearly faster there than in steps beside decoding sequences (LaneGain). Then
// steps hold only decoding sequences and short prompts. Such a step is due at once if it holds a
// prompt more urgent than the one in the lane; otherwise when the inter-token target requires it,
// but not so often that the prompt in the lane takes much longer than alone.
//
// Number of decoding rows. If all decoding sequences in one step would cost more per row than some
// of them (ggml's kernels take rows in groups of four), only that number takes part, the longest
// wait first.
//
// Between shares. The share with the fewest tokens so far goes first, into the cache and into the
// rows of a step (fair_queue.h). While its first token is due, a share with many generations gets
// one decoding row per step. The rest is the order within a share.
//
// Order within a share. Each generation gets a virtual deadline when it arrives:
//
//   deadline = arrival + handicap of its class + kPatience * time to compute the rest
//
// The earliest deadline goes first, into the cache and into the rows of a step. So of requests that
// arrive together the shortest goes first, and a short question overtakes a long document; but a
// request that arrives after another's deadline never overtakes it, in any class. So no request
// starves, and no ageing is needed.
//
// When cells run out, the generation with the latest arrival (handicap included) is preempted. The
// earliest never is, so one always advances.
//
// All this is a pure function of the demand: no threads, no clock, no model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/model/cost_model.h"
#include "engine/model/step_constants.h"
#include "engine/run/step_record.h"
#include "engine/types/request.h"

namespace svc {

struct StepTargets {
  double decoding_ms = kDecodingTargetMs;  // from one token to the next, where something decodes
  double prompt_ms = kPromptTargetMs;      // of a step of prompts alone
  // Sets of adapters that take turns (adapter_turns.h), and one for a picture or sound. If more
  // than 1, decoding_ms has been divided by it. A step of prompts alone is then kept short, too,
  // because the other sets wait for it with their answers.
  std::uint32_t turns = 1;
};

struct StepLimits {
  std::uint32_t rows = 512;          // of one batch. REQUIRES: > 0
  std::uint32_t cells = UINT32_MAX;  // that are free or can be freed
  std::uint32_t decoding_rows = UINT32_MAX;
  std::uint32_t prompt_rows =
      512;  // of them, for prompts; a little more where one is not to be cut
};

// A sequence that is in the cache and wants to continue.
struct Demand {
  // Rows until it can sample: 1 while it decodes, the rest of its prompt before. REQUIRES: > 0
  std::uint32_t rows = 1;
  std::uint32_t position = 0;  // of the first of them
  bool plain = false;          // to be computed as a plain loop does; otherwise as it is cheapest
  // Time since the first token, of a sequence that decodes.
  double age_ms = std::numeric_limits<double>::infinity();
};

// Limits of a step that make room for the first token of a share with less than its part
// (fair_queue.h).
struct StepYield {
  std::uint32_t decoding_rows = UINT32_MAX;
  std::uint32_t prompt_rows = UINT32_MAX;  // those of that share
};

// Number of those that decode.
std::uint32_t CountDecoding(std::span<const Demand> demands);

// Limits of the next step; `rows`: the largest batch. `demands` as below. `record` is used where
// the cost is not measured.
StepLimits LimitsFor(const CostModel& cost, const StepRecord& record, const StepTargets& targets,
                     std::span<const Demand> demands, std::uint32_t rows,
                     const StepYield& yield = {});

struct Share {
  std::size_t index = 0;   // into the demands
  std::uint32_t rows = 0;  // > 0, at most the demand's
};

// `demands` in order of urgency. The shares keep that order and fit the limits. Empty only if there
// are no demands or no cells.
std::vector<Share> PlanStep(std::span<const Demand> demands, const StepLimits& limits);

// Number of a prompt's rows, at most `most`, to compute in a batch of its own.
std::uint32_t RowsOfBatch(const Demand& prompt, std::uint32_t most);

// True if the decoding sequences get their next step, which costs `step_ms`, before the prompt in
// the lane continues. `since_ms`: time since their last step.
bool IsStepDue(double since_ms, double step_ms, const StepTargets& targets);

// Speed of a long prompt in the lane, relative to its speed in steps of at most `max_rows` rows
// beside `decoding` others. Infinite if nothing decodes or the cost was not measured.
double LaneGain(const CostModel& cost, const StepTargets& targets, std::uint32_t decoding,
                std::uint32_t max_rows);

// Both in milliseconds on the clock of `arrival_ms`; smaller goes first.
double SeniorityOf(double arrival_ms, Priority priority);
double DeadlineOf(double seniority_ms, double remaining_ms);

}  // namespace svc
