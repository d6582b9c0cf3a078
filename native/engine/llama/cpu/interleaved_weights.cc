#include "engine/llama/cpu/interleaved_weights.h"

#include <optional>
#include <string_view>

#include "engine/llama/cpu/matrix_ops.h"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml-cpu/traits.h"
#include "kernels/kernels.h"

namespace svc {
namespace {

// libllama's name for the token-embedding matrix.
constexpr const char* kEmbeddings = "token_embd.weight";

// Value of EmbeddingsInMemory for the model being loaded on this thread; true outside a load.
thread_local bool are_embeddings_wanted = true;

bool HasOurWeights(const ggml_tensor* op) {
  const ggml_tensor* weights = op->src[0];
  return weights != nullptr && weights->buffer != nullptr &&
         weights->buffer->buft == InterleavedWeights();
}

bool IsLookUp(const ggml_tensor* op) {
  return op->op == GGML_OP_GET_ROWS && std::string_view(op->src[0]->name) == kEmbeddings;
}

// ggml's hooks: a memory layout for weights, and for each operation whether our kernels compute it.
class WeightHooks final : public ggml::cpu::extra_buffer_type {
 public:
  explicit WeightHooks(const Kernels& kernels)
      : product_(NewProduct(kernels)),
        look_up_(NewLookUp()),
        half_product_(NewHalfProduct(kernels)) {}

  bool supports_op(ggml_backend_dev_t, const ggml_tensor* op) override {
    if (!HasOurWeights(op) || !MatrixOf(op->src[0]) || op->src[0]->view_src != nullptr)
      return false;
    const ggml_tensor* input = op->src[1];
    if (IsLookUp(op)) return are_embeddings_wanted && ggml_is_contiguous(input);
    return op->op == GGML_OP_MUL_MAT && input->type == GGML_TYPE_F32 &&
           input->nb[0] == sizeof(float) &&
           (input->buffer == nullptr || ggml_backend_buft_is_host(input->buffer->buft));
  }

  ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
    if (HasOurWeights(op)) {
      if (op->op == GGML_OP_MUL_MAT) return product_.get();
      if (IsLookUp(op)) return look_up_.get();
    }
    return TakesHalfProduct(op) ? half_product_.get() : nullptr;
  }

 private:
  const Operation product_;
  const Operation look_up_;
  const Operation half_product_;
};

void SetTensor(ggml_backend_buffer_t, ggml_tensor* tensor, const void* data, std::size_t offset,
               std::size_t size) {
  GGML_ASSERT(offset == 0 && size == ggml_nbytes(tensor));
  Interleave(static_cast<const std::uint8_t*>(data), *MatrixOf(tensor));
}

// CPU memory whose set_tensor interleaves the weights; it cannot be read back.
ggml_backend_buffer_t Allocate(ggml_backend_buffer_type_t type, std::size_t size) {
  ggml_backend_buffer_t buffer =
      ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
  if (buffer == nullptr) return nullptr;
  buffer->buft = type;
  buffer->iface.init_tensor = nullptr;
  buffer->iface.set_tensor = SetTensor;
  buffer->iface.get_tensor = nullptr;
  buffer->iface.cpy_tensor = nullptr;
  return buffer;
}

}  // namespace

// Never destroyed: models may be freed after the end of main.
ggml_backend_buffer_type_t InterleavedWeights() {
  static ggml_backend_buffer_type type{
      .iface = {
          .get_name = [](ggml_backend_buffer_type_t) { return "SVC_INTERLEAVED"; },
          .alloc_buffer = Allocate,
          .get_alignment = [](ggml_backend_buffer_type_t) { return kAlignment; },
          .get_max_size = nullptr,
          .get_alloc_size =
              [](ggml_backend_buffer_type_t, const ggml_tensor* tensor) {
                const std::optional<WeightMatrix> matrix = MatrixOf(tensor);
                return matrix ? matrix->bytes() : ggml_nbytes(tensor);
              },
          .is_host = nullptr,
      },
      .device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU),
      .context = new WeightHooks(SupportedKernels().front()),
  };
  return &type;
}

bool TakeAllOf(const std::string& path) {
  ggml_context* context = nullptr;
  const gguf_context_ptr file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = &context}));
  const ggml_context_ptr tensors(context);
  if (file == nullptr || gguf_find_key(file.get(), "split.count") >= 0) return false;
  const auto has = [&](const char* name) { return gguf_find_tensor(file.get(), name) >= 0; };
  // gemma3n's per-layer embeddings are large and only looked up.
  if (!has(kEmbeddings) || has("output.weight") || has("per_layer_token_embd.weight")) return false;
  for (ggml_tensor* tensor = ggml_get_first_tensor(context); tensor != nullptr;
       tensor = ggml_get_next_tensor(context, tensor)) {
    if (ggml_n_dims(tensor) > 1 && !MatrixOf(tensor)) return false;
  }
  return true;
}

EmbeddingsInMemory::EmbeddingsInMemory(bool are_wanted) { are_embeddings_wanted = are_wanted; }

EmbeddingsInMemory::~EmbeddingsInMemory() { are_embeddings_wanted = true; }

}  // namespace svc
