#include "engine/llama/cpu/kernel_samples.h"

#include <cmath>

#include "engine/llama/cpu/sample_graph.h"

namespace svc {
namespace {

// Bound of the difference of a value, relative to the root mean square of all. Measured: 0.0005 for
// products, whose activations are rounded to 8 bits, and 0.005 for ggml's attention, which adds up
// half floats. A wrong weight, row or cell is off by about 1.
constexpr double kRounding = 0.02;

}  // namespace

std::vector<KernelSample> ComputeSamples(ggml_backend_buffer_type_t weights) {
  SampleGraph graph;
  graph.AddProducts();
  graph.AddAttention({.head_length = 64, .heads = 2, .rows = 6, .cells = 64});
  if (!graph.Allocate(weights) || !graph.Compute()) return {};
  std::vector<KernelSample> samples;
  for (const auto& [name, result] : graph.results()) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(result)));
    ggml_backend_tensor_get(result, values.data(), 0, ggml_nbytes(result));
    samples.push_back({name, std::move(values)});
  }
  return samples;
}

const char* FirstDifference(const std::vector<KernelSample>& expected,
                            const std::vector<KernelSample>& actual) {
  if (expected.empty() || actual.size() != expected.size()) return "a graph";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<float>& values = expected[i].values;
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    const double bound = kRounding * std::sqrt(squares / static_cast<double>(values.size()));
    for (std::size_t k = 0; k < values.size(); ++k) {
      // Not `>`: a value that is not a number is a difference, too.
      if (!(std::abs(actual[i].values[k] - values[k]) <= bound)) return expected[i].operation;
    }
  }
  return nullptr;
}

}  // namespace svc
