#include "engine/llama/cpu/sample_graph.h"

#include <cmath>

#include "engine/llama/cpu/matrix_ops.h"

namespace svc {
namespace {

constexpr std::int64_t kDepth = 256;  // the smallest that all types have
constexpr std::int64_t kOutputs = 16;
constexpr std::int64_t kRows = 6;

ggml_context_ptr NewContext() {
  return ggml_context_ptr(
      ggml_init({.mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
}

// A CPU backend with one thread. Null: there is none.
ggml_backend_ptr NewBackend() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_ptr backend(ggml_backend_dev_init(device, nullptr));
  const auto set_threads =
      reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  if (backend != nullptr && set_threads != nullptr) set_threads(backend.get(), 1);
  return backend;
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

}  // namespace

SampleGraph::SampleGraph()
    : backend_(NewBackend()), weights_(NewContext()), others_(NewContext()) {}

ggml_tensor* SampleGraph::Input(const ggml_context_ptr& context, ggml_type type,
                                const Shape& shape) {
  inputs_.push_back(ggml_new_tensor_3d(context.get(), type, shape[0], shape[1], shape[2]));
  return inputs_.back();
}

void SampleGraph::AddProducts() {
  ggml_tensor* rows = Input(others_, GGML_TYPE_F32, {kDepth, kRows, 1});
  for (const auto& [type, ours] : kGgmlTypes) {
    ggml_tensor* matrix = Input(weights_, type, {kDepth, kOutputs, 1});
    results_.emplace_back(ggml_type_name(type), ggml_mul_mat(others_.get(), matrix, rows));
  }
  ggml_tensor* halves = Input(others_, GGML_TYPE_F16, {kDepth, kOutputs, 1});
  results_.emplace_back("f16", ggml_mul_mat(others_.get(), halves, rows));
}

ggml_tensor* SampleGraph::AddAttention(const AttentionShape& shape) {
  const auto [length, heads, rows, cells] = shape;
  ggml_tensor* queries = Input(others_, GGML_TYPE_F32, {length, rows, heads});
  ggml_tensor* keys = Input(others_, GGML_TYPE_F16, {length, cells, 1});
  ggml_tensor* values = Input(others_, GGML_TYPE_F16, {length, cells, 1});
  ggml_tensor* mask = Input(others_, GGML_TYPE_F16, {cells, rows, 1});
  results_.emplace_back(
      "attention", ggml_flash_attn_ext(others_.get(), queries, keys, values, mask, 0.125F, 0, 0));
  return mask;
}

bool SampleGraph::Allocate(ggml_backend_buffer_type_t weights) {
  if (backend_ == nullptr) return false;
  nodes_ = ggml_new_graph(others_.get());
  for (const auto& [name, result] : results_) ggml_build_forward_expand(nodes_, result);
  if (ggml_get_first_tensor(weights_.get()) != nullptr) {
    weight_buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), weights));
    if (weight_buffer_ == nullptr) return false;
  }
  other_buffer_.reset(ggml_backend_alloc_ctx_tensors(others_.get(), backend_.get()));
  if (other_buffer_ == nullptr) return false;
  for (ggml_tensor* input : inputs_) Fill(input);
  return true;
}

bool SampleGraph::Compute() {
  return ggml_backend_graph_compute(backend_.get(), nodes_) == GGML_STATUS_SUCCESS;
}

}  // namespace svc
