// Who gets rows in the next step, and how many.
//
// A step is one call of the model over a batch of rows; all sequences share it. Two kinds of work
// compete for the rows: a sequence that decodes needs one row for its next token, and somebody
// watches that token appear; a prompt needs thousands of rows before its first token.
//
// How many rows. Every sequence that decodes gets its row in every step; what is left is prompt.
// While something decodes, the step must end within the inter-token target, and the cost model says
// how many rows that allows; never fewer than kLeastPromptRows, so that a prompt always gets on. On
// a processor this costs the prompt next to nothing: rows that ride along with decoding are cheaper
// than a step of their own. Where the most urgent prompt can end in this step, its first token is
// what somebody waits for, and the others get only what the target leaves. Otherwise the only one
// who could wait is a request that has not come yet: the step may be long, but still ends in time
// for it. Where the cost was not measured (on a GPU), the steps so far say the same
// (step_record.h).
//
// Who comes together. Several short prompts that come at once would begin one after the other
// beside those who have begun, each step a little larger than it is good for, and end one after the
// other in steps that are not full. So while all who decode have had their first token only just
// now, such prompts go first: until the oldest of them would wait longer than for a step of
// prompts.
//
// How prompts are cut. Attention has one kernel for fewer than 64 rows and one, that takes 64 at a
// time, for more. So the steps of a prompt are multiples of 64, and an end that would be shorter
// joins the step before it. What a row becomes depends on which of the two it meets, and on nothing
// else: a prompt for which it is asked gives, to the last bit, what it gives in a plain llama.cpp
// loop with batches of 512, though it is computed in smaller steps. There, an end that the plain
// loop would compute by itself is computed by itself, too.
//
// Prompts in the lane. A decoder may have a lane beside its cache, where a long prompt is computed
// in batches that can be left between layers (prefill_lane.h). It does so if nothing decodes, or if
// it gets on clearly sooner than in steps beside what decodes. Then steps hold only what decodes and
// prompts that are short, and the scheduler decides when one is due: at once if it holds a prompt
// more urgent than the one in the lane, else so often that the inter-token target is met, but not so
// often that the prompt in the lane takes much longer than alone.
//
// How many decode. Where all rows in one step cost more each than some of them (kernels take rows
// in groups of four), so many take part, and those who have waited longest go first.
//
// Whose turn it is. The share with the fewest tokens so far goes first, into the cache and into the
// rows of a step (fair_queue.h). While its first token is due, a share that runs many generations
// gets one decoding row a step. What follows is the order within a share.
//
// In which order. Each generation gets a virtual deadline when it arrives:
//
//   deadline = arrival + handicap of its class + kPatience * what is left to compute
//
// and the earliest deadline goes first, into the cache and into the rows of a step. So the shortest
// goes first among those that come together, and a short question passes a long document; but one
// that arrives after the deadline of another never passes it, whatever its class. Nothing waits for
// ever, and there is no ageing to be done: time itself does it.
//
// When cells run out, the one with the latest arrival (handicap included) makes way. The earliest
// never does, so there is always one that moves on.
//
// All this is a pure function of the demand: no threads, no clock, no model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/base/request.h"
#include "engine/model/cost_model.h"
#include "engine/model/step_constants.h"
#include "engine/run/step_record.h"

namespace svc {

struct StepTargets {
  double decoding_ms = kDecodingTargetMs;  // from one token to the next, where something decodes
  double prompt_ms = kPromptTargetMs;      // of a step of prompts alone
};

struct StepLimits {
  std::uint32_t rows = 512;          // of one batch. REQUIRES: > 0
  std::uint32_t cells = UINT32_MAX;  // that are free or can be freed
  std::uint32_t decoding_rows = UINT32_MAX;
  std::uint32_t prompt_rows =
      512;  // of them, for prompts; a little more where one is not to be cut
};

// A sequence that is in the cache and wants to go on.
struct Demand {
  // Rows until it can sample: 1 while it decodes, the rest of its prompt before. REQUIRES: > 0
  std::uint32_t rows = 1;
  std::uint32_t position = 0;  // of the first of them
  bool plain = false;          // to be computed as a plain loop does; otherwise as it is cheapest
  // Of one that decodes: since its first token.
  double age_ms = std::numeric_limits<double>::infinity();
};

// What a step leaves to the first token of a share that has less than its part (fair_queue.h).
struct StepYield {
  std::uint32_t decoding_rows = UINT32_MAX;
  std::uint32_t prompt_rows = UINT32_MAX;  // those of that share
};

// What a step may hold; `rows`: the largest batch. `demands` as below. `record` is looked at where
// the cost is not measured.
StepLimits LimitsFor(const CostModel& cost, const StepRecord& record, const StepTargets& targets,
                     std::span<const Demand> demands, std::uint32_t rows,
                     const StepYield& yield = {});

struct Share {
  std::size_t index = 0;   // into the demands
  std::uint32_t rows = 0;  // > 0, at most the demand's
};

// `demands` in order of urgency. The shares keep that order, fit the limits and are empty only if
// there are no demands or no cells.
std::vector<Share> PlanStep(std::span<const Demand> demands, const StepLimits& limits);

// How many of a prompt's rows to compute in a batch of its own, of at most `most`.
std::uint32_t RowsOfBatch(const Demand& prompt, std::uint32_t most);

// Whether those who decode, in a step that costs `step_ms`, get it before the prompt in the lane
// goes on; `since_ms`: since their last one.
bool IsStepDue(double since_ms, double step_ms, const StepTargets& targets);

// How many times as fast a long prompt gets on in the lane as in steps beside `decoding` others of
// at most `max_rows` rows. Infinite if nothing decodes, or the cost was not measured.
double LaneGain(const CostModel& cost, const StepTargets& targets, std::uint32_t decoding,
                std::uint32_t max_rows);

// Both in milliseconds on the clock of `arrival_ms`; smaller goes first.
double SeniorityOf(double arrival_ms, Priority priority);
double DeadlineOf(double seniority_ms, double remaining_ms);

}  // namespace svc
