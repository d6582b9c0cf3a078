// The constants of the cost model, the scheduler and the lane, each with its unit and the
// measurement or reason behind its value. "Measured" refers to docs/benchmarks.md, "Engine
// parts that our kernels made unnecessary".
#pragma once

#include <cstdint>

namespace svc {

// ---- kernels ------------------------------------------------------------------------------------

// Rows. ggml's quantised products compute rows in groups of four, and an incomplete group costs as
// much as a complete one: without padding, three streams take 1.35 times as long (measured). Our
// F16 product behaves the same: five streams, 1.15 times. Our quantised products have no such
// groups.
inline constexpr std::uint32_t kGroupRows = 4;
// Sequence ids reserved for padding rows: a group lacks at most three rows.
inline constexpr std::uint32_t kPaddingIds = kGroupRows - 1;
// Rows. ggml's attention takes 64 rows at a time and has another kernel, which rounds differently,
// for fewer. Ours rounds the same for any number and is equally fast (measured: 1.01 to 1.04).
inline constexpr std::uint32_t kTile = 64;
// Rows in a batch of a plain llama.cpp loop: llama.cpp's default n_ubatch.
inline constexpr std::uint32_t kPlainBatch = 512;

// ---- the cost model -----------------------------------------------------------------------------

// Milliseconds that measuring step costs at load may take, CPU only: a GPU takes whole batches, and
// some GPU drivers crash during the measurement. Three tenths of a second: a load takes longer.
inline constexpr double kMeasureMs = 300;
// Cost of one more row where the cost of steps is not measured, as a part of the step without
// drafts. On a GPU it is less.
inline constexpr double kUnmeasuredRow = 0.2;
// Row counts up to this one each have an entry in the table: within the first two groups of rows,
// one row more changes the cost most.
inline constexpr std::uint32_t kSingleRows = 8;
// Part of a prediction error by which an observed step corrects the entries next to its row count,
// and all others. A fifth: five similar steps have to agree, since other programs disturb some. The
// smaller part follows a machine that becomes slower as a whole.
inline constexpr double kNearCorrection = 0.2;
inline constexpr double kFarCorrection = 0.02;
// Bounds of measured / predicted for one step. A value beyond them was caused by another program or
// the disk.
inline constexpr double kFastestStep = 0.5;
inline constexpr double kSlowestStep = 2.0;
// Another row count is chosen only if its predicted cost is below this part. The margin is larger
// than the error of the measurement at load, a few percent.
inline constexpr double kCheaper = 0.9;
// The same for fewer sequences in a step than decode: each that is left out waits twice as long for
// its token. With 0.9, errors of the model left out two of eight streams although all together were
// cheaper (measured: 0.5B Q4_0, steps of 5 rows predicted 23 ms, taken 31 ms; of 8 rows 39 ms).
inline constexpr double kCheaperWithoutSome = 0.75;

// ---- the record of steps, used where the cost was not measured (on a GPU) -----------------------

// Part of the error by which a step slower than predicted corrects the entry that predicted it.
inline constexpr double kRecordCorrection = 0.2;
// Prompt rows of a step before any step was recorded, and the minimum in a step of prompts alone:
// fewer rows leave a GPU mostly idle.
inline constexpr std::uint32_t kUnmeasuredPromptRows = 512;

// ---- step time ----------------------------------------------------------------------------------

// Milliseconds from one token to the next while a prompt is computed in the same steps: ten tokens
// per second are faster than people read.
inline constexpr double kDecodingTargetMs = 100;
// Milliseconds of a step of prompts alone: the longest wait of a request that arrives during it.
inline constexpr double kPromptTargetMs = 400;
// Minimum prompt rows per step while anything decodes. Fewer would not repay the step's fixed cost.
inline constexpr std::uint32_t kLeastPromptRows = 16;
// A running step is aborted for a request of another share only if at least this many milliseconds
// and this part of it remain: otherwise the work thrown away costs more than the wait.
inline constexpr double kLeastYieldMs = 30;
inline constexpr double kLeastYieldPart = 1.0 / 3;

// ---- order --------------------------------------------------------------------------------------

// Factor on a request's remaining computing time in its deadline. Four: a question that takes 0.1 s
// overtakes a document that takes 10 s if it arrives up to 40 s later.
inline constexpr double kPatience = 4;
// Milliseconds added to the arrival of a request of the batch class: others that arrive up to a
// minute later go first.
inline constexpr double kBatchHandicapMs = 60'000;

// ---- the lane -----------------------------------------------------------------------------------

// Prompts with fewer rows left are computed in the decoder's own cache: they do not delay others
// for long, and need no copy. A prompt that is in the lane already stays until fewer are left.
inline constexpr std::uint32_t kLeastLaneRows = 128;
inline constexpr std::uint32_t kLeastHeldLaneRows = 32;
// Tokens per copy to the lane. Bounds the memory of a copy: 16 MiB for a model with 32 KiB of cache
// per token.
inline constexpr std::uint32_t kLaneCopyTokens = 512;
// Rows of a batch in the lane while anything decodes. A few percent dearer per row than 512, but it
// ends in half the time.
inline constexpr std::uint32_t kLaneRowsBeside = 256;
// Between two steps of decoding sequences, the lane computes for this multiple of a step's time, at
// most for this number of milliseconds. With three quarters of the time, a prompt takes a third
// longer than alone.
inline constexpr double kLaneShare = 3;
inline constexpr double kLongestWaitMs = 250;
// Minimum LaneGain for a prompt to enter the lane, and to stay. The decoding sequences pay for the
// lane (measured): on 0.5B F16 the prompt's first token comes 1.5 times as fast and their tokens
// 2.2 times as slowly; on 1B Q4_K_M the prompt gains nothing and their tokens come 1.6 times as
// slowly.
inline constexpr double kLeastLaneGain = 1.1;
inline constexpr double kLeastHeldLaneGain = 1.0;

// ---- pictures and sounds ------------------------------------------------------------------------
// Between two steps of decoding sequences, a picture or sound is computed for this part of the time
// of the last step, but for no more than kLongestWaitMs. If that step ended before
// kDecodingTargetMs, the rest of this target may be used instead. A third: prompts have half of the
// target meanwhile. The longest gap between tokens is then 227 ms, beside prompts of text 199 ms.
// With three times a step, as in the lane, and whole steps, it was over 600 ms (measured: 8
// streams, 0.5B Q4_0, 2 threads).
inline constexpr double kMediaShare = 1.0 / 3;

}  // namespace svc
