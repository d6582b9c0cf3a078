#include "engine/llama/cpu/kernel_samples.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "engine/llama/cpu/matrix_ops.h"
#include "ggml-cpp.h"

namespace svc {
namespace {

constexpr std::int64_t kDepth = 256;  // the smallest that all types have
constexpr std::int64_t kOutputs = 16;
constexpr std::int64_t kRows = 6;
constexpr std::int64_t kHeadLength = 64;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kCells = 64;

// Bound of the difference of a value, relative to the root mean square of all. Measured: 0.0005 for
// products, whose activations are rounded to 8 bits, and 0.005 for ggml's attention, which adds up
// half floats. A wrong weight, row or cell is off by about 1.
constexpr double kRounding = 0.02;

ggml_context_ptr NewContext() {
  return ggml_context_ptr(
      ggml_init({.mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
}

// Fills the tensor with numbers in [-1, 1], converted to its type.
void Fill(ggml_tensor* tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(ggml_nelements(tensor)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::sin(static_cast<float>(i % 977) * 1.7F);
  }
  std::vector<std::uint8_t> bytes(ggml_nbytes(tensor));
  ggml_quantize_chunk(tensor->type, numbers.data(), bytes.data(), 0, ggml_nrows(tensor),
                      tensor->ne[0], nullptr);
  ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

// Tensors of the samples; `inputs` are to be filled.
struct Graph {
  ggml_context_ptr weights = NewContext();
  ggml_context_ptr others = NewContext();
  std::vector<ggml_tensor*> inputs;
  std::vector<std::pair<const char*, ggml_tensor*>> results;

  ggml_tensor* Input(const ggml_context_ptr& context, ggml_type type,
                     std::array<std::int64_t, 3> shape) {
    inputs.push_back(ggml_new_tensor_3d(context.get(), type, shape[0], shape[1], shape[2]));
    return inputs.back();
  }

  void AddProducts() {
    ggml_tensor* rows = Input(others, GGML_TYPE_F32, {kDepth, kRows, 1});
    for (const auto& [type, ours] : kGgmlTypes) {
      ggml_tensor* matrix = Input(weights, type, {kDepth, kOutputs, 1});
      results.emplace_back(ggml_type_name(type), ggml_mul_mat(others.get(), matrix, rows));
    }
    ggml_tensor* halves = Input(others, GGML_TYPE_F16, {kDepth, kOutputs, 1});
    results.emplace_back("f16", ggml_mul_mat(others.get(), halves, rows));
  }

  void AddAttention() {
    ggml_tensor* queries = Input(others, GGML_TYPE_F32, {kHeadLength, kRows, kHeads});
    ggml_tensor* keys = Input(others, GGML_TYPE_F16, {kHeadLength, kCells, 1});
    ggml_tensor* values = Input(others, GGML_TYPE_F16, {kHeadLength, kCells, 1});
    ggml_tensor* mask = Input(others, GGML_TYPE_F16, {kCells, kRows, 1});
    results.emplace_back(
        "attention", ggml_flash_attn_ext(others.get(), queries, keys, values, mask, 0.125F, 0, 0));
  }
};

}  // namespace

std::vector<KernelSample> ComputeSamples(ggml_backend_buffer_type_t weights) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const ggml_backend_ptr backend(ggml_backend_dev_init(device, nullptr));
  if (backend == nullptr) return {};
  const auto set_threads =
      reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  if (set_threads != nullptr) set_threads(backend.get(), 1);

  Graph graph;
  graph.AddProducts();
  graph.AddAttention();
  ggml_cgraph* nodes = ggml_new_graph(graph.others.get());
  for (const auto& [name, result] : graph.results) ggml_build_forward_expand(nodes, result);
  const ggml_backend_buffer_ptr matrices(
      ggml_backend_alloc_ctx_tensors_from_buft(graph.weights.get(), weights));
  const ggml_backend_buffer_ptr buffer(
      ggml_backend_alloc_ctx_tensors(graph.others.get(), backend.get()));
  if (matrices == nullptr || buffer == nullptr) return {};
  for (ggml_tensor* input : graph.inputs) Fill(input);
  if (ggml_backend_graph_compute(backend.get(), nodes) != GGML_STATUS_SUCCESS) return {};

  std::vector<KernelSample> samples;
  for (const auto& [name, result] : graph.results) {
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
