// What the cost model, the scheduler and the lane were set to: every number with its unit, and the
// measurement or the reason for it. "Measured" means docs/benchmarks.md, "What the own kernels made
// needless", unless it says where.
#pragma once

#include <cstdint>

namespace svc {

// ---- shapes that kernels like -------------------------------------------------------------------

// Rows. ggml's quantised products compute four rows at a time, and a group that is not full costs
// as much as one that is: three streams without padding take 1.37 times as long (Q4_0, 0.5B). Our
// product for F16 does so, too: five streams 1.12 times. Our quantised products do not care.
inline constexpr std::uint32_t kGroupRows = 4;
// Sequence ids that are reserved for padding rows of a batch: a group lacks at most three rows.
inline constexpr std::uint32_t kPaddingIds = kGroupRows - 1;
// Rows that attention takes at a time: ggml's has one kernel for fewer and one for more, and the
// two round differently. Ours rounds the same for any number and is as fast with any (measured:
// 0.99 to 1.04); where ggml's computes, texts stay the same only with whole tiles.
inline constexpr std::uint32_t kTile = 64;
// Rows in a batch of a plain llama.cpp loop: its default n_ubatch. A prompt that is to be rounded as
// there is cut there.
inline constexpr std::uint32_t kPlainBatch = 512;

// ---- the cost model -----------------------------------------------------------------------------

// Rows up to which its table has an entry for every count: within two groups, one row more or less
// changes most.
inline constexpr std::uint32_t kSingleRows = 8;
// Part of the error of a prediction by which an observation moves the entries next to its row
// count, and all others. One step in five may be disturbed by another program, so five like it have
// to agree; the rest follows slowly, for a whole machine that becomes slower.
inline constexpr double kNearCorrection = 0.2;
inline constexpr double kFarCorrection = 0.02;
// Bounds of measured / predicted of one step: what is beyond was another program, or the disk.
inline constexpr double kFastestStep = 0.5;
inline constexpr double kSlowestStep = 2.0;
// Another row count is chosen only if its predicted cost is below this part: the margin is larger
// than the error of two timings at load (a few percent).
inline constexpr double kCheaper = 0.9;

// ---- the record of steps, where no cost was measured (on a GPU) ---------------------------------

// Part by which a step that was slower than predicted moves what predicted it.
inline constexpr double kRecordCorrection = 0.2;
// Rows of prompt in a step before any was recorded, and the fewest in a step of prompts alone: a
// GPU is far below full with fewer.
inline constexpr std::uint32_t kUnmeasuredPromptRows = 512;

// ---- how long a step may take -------------------------------------------------------------------

// Milliseconds from one token to the next, where something decodes and a prompt is computed in the
// same steps: ten tokens a second are read comfortably.
inline constexpr double kDecodingTargetMs = 100;
// Milliseconds of a step of prompts alone: what a request that comes just then waits at most.
inline constexpr double kPromptTargetMs = 400;
// Rows of prompt in every step, however long it takes: fewer hardly pay for the step.
inline constexpr std::uint32_t kLeastPromptRows = 16;

// A running step is given up for a request of another share if it still takes so many milliseconds,
// and so large a part of all of it: below that, what is thrown away costs more than waiting.
inline constexpr double kLeastYieldMs = 30;
inline constexpr double kLeastYieldPart = 1.0 / 3;

// ---- who goes first -----------------------------------------------------------------------------

// Seconds that a short request may arrive later, per second of computing that it needs less, and
// still go first. Four: a question of a tenth of a second passes a document of ten seconds for
// forty, then the document's turn has come.
inline constexpr double kPatience = 4;
// Milliseconds by which a request of the batch class counts as having arrived later: it makes way
// for an hour's worth of questions and still gets its turn within a minute of the last.
inline constexpr double kBatchHandicapMs = 60'000;

// ---- the lane -----------------------------------------------------------------------------------

// Rows of a prompt below which it is computed in the decoder's own cache: they are no long wait for
// others, and copying them back is no part of it. The end of a prompt that is in the lane already
// has been copied but for this, so it stays there down to fewer.
inline constexpr std::uint32_t kLeastLaneRows = 128;
inline constexpr std::uint32_t kLeastHeldLaneRows = 32;
// Tokens copied to the lane at a time, which bounds the copy's memory: 16 MiB for a model with
// 32 KiB of cache per token.
inline constexpr std::uint32_t kLaneCopyTokens = 512;
// Rows of a batch while something decodes: a few percent dearer each than in one of 512, but it
// ends in half the time.
inline constexpr std::uint32_t kLaneRowsBeside = 256;
// Beside generations that decode, the prompt in the lane computes for so many times what one of
// their steps takes, and for at most so many milliseconds, between two of them. So it has three
// quarters of the time: it takes a third longer than alone.
inline constexpr double kLaneShare = 3;
inline constexpr double kLongestWaitMs = 250;
// How many times as fast as in steps beside others a prompt must get on in the lane to enter it,
// and to stay. The lane's price is that those others wait: measured on 1B Q4_K_M, where rows of
// prompt ride along with decoding, their tokens come 1.6 times as slow and the prompt no sooner; on
// 0.5B F16, twice as slow, and the prompt's first token comes 1.5 times as soon.
inline constexpr double kLeastLaneGain = 1.1;
inline constexpr double kLeastHeldLaneGain = 1.0;

}  // namespace svc
