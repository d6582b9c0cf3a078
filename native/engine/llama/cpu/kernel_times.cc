#include "engine/llama/cpu/kernel_times.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "engine/llama/cpu/sample_graph.h"

namespace svc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 5;
// No further turns after it. An emulator needs seconds for one.
constexpr std::chrono::milliseconds kEnough{100};

// Largest ratio of ours to theirs that a gain for other shapes makes up for. Measured for AVX2,
// whose gain benchmarks show: 0.3 and 0.5 for one row, 0.9 and 1.2 for a prompt.
constexpr double kTolerated = 1.25;

// From 64 rows on ggml's kernel works on tiles of rows.
constexpr std::array kTimedShapes = {
    AttentionShape{.head_length = 64, .heads = 4, .rows = 1, .cells = 1024},
    AttentionShape{.head_length = 128, .heads = 4, .rows = 1, .cells = 1024},
    AttentionShape{.head_length = 64, .heads = 2, .rows = 64, .cells = 256},
    AttentionShape{.head_length = 128, .heads = 2, .rows = 64, .cells = 256}};

// Row r sees the cells up to r of the last `rows`.
void SetCausal(ggml_tensor* mask) {
  const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
  std::vector<ggml_fp16_t> values(static_cast<std::size_t>(ggml_nelements(mask)));
  const std::int64_t cells = mask->ne[0];
  const std::int64_t rows = mask->ne[1];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / cells;
    const auto cell = static_cast<std::int64_t>(i) % cells;
    values[i] = cell <= cells - rows + row ? 0 : hidden;
  }
  ggml_backend_tensor_set(mask, values.data(), 0, ggml_nbytes(mask));
}

}  // namespace

std::vector<KernelTime> TimeAttention(const std::function<void(bool is_ours)>& use_ours) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  std::vector<KernelTime> times;
  for (const AttentionShape& shape : kTimedShapes) {
    SampleGraph graph;
    ggml_tensor* const mask = graph.AddAttention(shape);
    if (!graph.Allocate(ggml_backend_cpu_buffer_type())) return {};
    SetCausal(mask);
    KernelTime time{.theirs = kNever, .ours = kNever};
    for (int turn = 0; turn == 0 || (turn < kTurns && Clock::now() - begin < kEnough); ++turn) {
      for (const bool is_ours : {false, true}) {
        use_ours(is_ours);
        const Clock::time_point start = Clock::now();
        if (!graph.Compute()) return {};
        const std::chrono::duration<double> seconds = Clock::now() - start;
        double& least = is_ours ? time.ours : time.theirs;
        least = std::min(least, seconds.count());
      }
    }
    times.push_back(time);
  }
  return times;
}

bool IsLoss(const std::vector<KernelTime>& times) {
  double total = 0;
  for (const auto& [theirs, ours] : times) {
    const double ratio = ours / theirs;
    if (ratio > kTolerated) return true;
    total += ratio;
  }
  return times.empty() || total > static_cast<double>(times.size());
}

}  // namespace svc
