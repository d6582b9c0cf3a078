// What the next step computes.
//
// A step is one call of the model over a batch of rows; all sequences share it. Two kinds of work
// compete for the rows: a sequence that decodes needs one row for its next token, and somebody
// watches that token appear; a prompt needs thousands of rows before its first token.
//
//   * Every sequence that decodes gets its row in every step.
//   * What is left is prompt, first come first served. While something decodes, the prompt gets few
//     rows, so that no token waits long for its step; with nothing decoding it gets all there are.
//     On a processor small chunks cost the long prompt next to nothing: a step is bound by the
//     weights it reads, and rows that ride along with decoding are cheaper than a step of their
//     own.
//   * The whole batch is filled to a multiple of four where prompt rows allow it: quantised kernels
//     take rows in groups of four, and a group that is not full costs as much as one that is.
//
// The planner is a pure function of the demand: no threads, no clock, no model. The runner asks it
// once a step and does what it says; priorities, deadlines and measured costs belong here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace svc {

// A sequence that is in the cache and wants to go on.
struct Demand {
  // Rows until it can sample: 1 while it decodes, the rest of its prompt before. REQUIRES: > 0
  std::uint32_t rows = 1;
};

struct StepLimits {
  std::uint32_t rows = 512;          // of one batch. REQUIRES: > 0
  std::uint32_t cells = UINT32_MAX;  // that are free
  // Of prompt, while something decodes. A multiple of four.
  std::uint32_t prompt_rows_beside_decoding = 32;
};

struct Share {
  std::size_t index = 0;   // into the demands
  std::uint32_t rows = 0;  // > 0, at most the demand's
};

// `demands` in order of arrival. The shares keep that order, fit the limits and are empty only if
// there are no demands or no cells.
std::vector<Share> PlanStep(std::span<const Demand> demands, const StepLimits& limits);

}  // namespace svc
