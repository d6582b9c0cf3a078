// Figures of an engine and of its steps. Their names are those of src/protocol/records.ts.
#pragma once

#include <cstdint>
#include <tuple>

#include "engine/base/field.h"

namespace svc {

// Content of one step, and its predicted and measured time.
struct StepStats {
  std::uint32_t rows = 0;         // padding rows included
  std::uint32_t prompt_rows = 0;  // part of `rows`
  double predicted_ms = 0;        // 0: the cost model has no measurement
  double spent_ms = 0;

  SVC_FIELDS(StepStats, (rows), (prompt_rows), (predicted_ms), (spent_ms))
};

// Counters start when the model is loaded.
struct EngineStats {
  std::uint32_t active = 0;           // generations in the cache
  std::uint32_t waiting = 0;          // generations submitted, not yet in the cache
  std::uint32_t kv_cells_used = 0;    // by active generations
  std::uint32_t kv_cells_cached = 0;  // by cached prefixes; can be evicted
  std::uint32_t kv_cells_total = 0;
  std::uint32_t kv_tokens_swapped = 0;  // tokens of cached prefixes swapped out of the cells
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t prompt_tokens = 0;  // computed prompt tokens
  std::uint64_t cached_tokens = 0;  // prompt tokens from the prefix cache
  std::uint64_t generated_tokens = 0;
  std::uint64_t drafted_tokens = 0;   // draft tokens computed
  std::uint64_t accepted_tokens = 0;  // draft tokens accepted
  std::uint64_t preemptions = 0;
  std::uint64_t evicted_cells = 0;
  double predicted_ms = 0;  // sum over all steps; so is spent_ms
  double spent_ms = 0;
  StepStats last_step;
  std::uint32_t threads = 0;     // compute threads; fewer while other programs keep the cores busy
  double tokens_per_second = 0;  // generated, over the last few seconds of work; 0: idle
  double step_age_ms = 0;        // age of the running step; 0: none runs
  std::uint64_t operations = 0;  // that the CPU has computed for steps since the process began

  SVC_FIELDS(EngineStats, (active), (waiting), (kv_cells_used), (kv_cells_cached), (kv_cells_total),
             (kv_tokens_swapped), (last_step), (tokens_per_second), (step_age_ms), (operations))
  // `steps` of the health record.
  static constexpr auto StepFields() {
    using Self = EngineStats;
    return std::make_tuple(Field{"count", &Self::steps}, SVC_FIELD(rows), SVC_FIELD(prompt_tokens),
                           SVC_FIELD(cached_tokens), SVC_FIELD(generated_tokens),
                           SVC_FIELD(drafted_tokens), SVC_FIELD(accepted_tokens),
                           SVC_FIELD(preemptions), SVC_FIELD(evicted_cells),
                           SVC_FIELD(predicted_ms), SVC_FIELD(spent_ms), SVC_FIELD(threads));
  }
};

}  // namespace svc
