#include "engine/llama/cpu_kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-backend-impl.h"
#include "ggml-cpu/traits.h"
#include "gguf.h"
#include "kernels/attention.h"
#include "kernels/half_matrix.h"
#include "kernels/matrix_kernel.h"
#include "kernels/quantized_rows.h"
#include "kernels/weight_matrix.h"

// ggml declares these destructors and defines them in a module that is loaded at run time, so
// nothing can be linked.
ggml::cpu::tensor_traits::~tensor_traits() = default;
ggml::cpu::extra_buffer_type::~extra_buffer_type() = default;

namespace svc {
namespace {

constexpr std::size_t kAlignment = 64;
// Work shares per thread in one operation, so that threads that are faster or not interrupted take
// more of them.
constexpr std::size_t kSharesPerThread = 8;

// libllama's name for the token-embedding matrix.
constexpr const char* kEmbeddings = "token_embd.weight";

// Functions of ggml's CPU module that its public headers do not declare.
struct Module {
  std::vector<ggml_backend_buffer_type_t>& (*extra_buffer_types)();
  void (*barrier)(ggml_threadpool*);
  void (*set_share)(ggml_threadpool*, int);
  int (*add_share)(ggml_threadpool*, int);
};
Module module;

// Value of EmbeddingsInMemory for the model being loaded on this thread; true outside a load.
thread_local bool are_embeddings_wanted = true;

ggml_backend_buffer_type_t BufferType();

std::optional<WeightType> TypeOf(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_0:
      return WeightType::kQ4_0;
    case GGML_TYPE_Q5_0:
      return WeightType::kQ5_0;
    case GGML_TYPE_Q8_0:
      return WeightType::kQ8_0;
    case GGML_TYPE_Q4_K:
      return WeightType::kQ4K;
    case GGML_TYPE_Q5_K:
      return WeightType::kQ5K;
    case GGML_TYPE_Q6_K:
      return WeightType::kQ6K;
    default:
      return std::nullopt;
  }
}

// The tensor as a matrix of ours; absent: it cannot be interleaved.
std::optional<WeightMatrix> MatrixOf(const ggml_tensor* tensor) {
  const std::optional<WeightType> type = TypeOf(tensor->type);
  const auto outputs = static_cast<std::size_t>(tensor->ne[1]);
  const auto depth = static_cast<std::size_t>(tensor->ne[0]);
  if (!type || ggml_n_dims(tensor) > 2 || !WeightMatrix::Fits(*type, outputs, depth)) return {};
  return WeightMatrix{.type = *type,
                      .outputs = outputs,
                      .depth = depth,
                      .data = static_cast<std::uint8_t*>(tensor->data)};
}

std::size_t ThreadOf(const ggml_compute_params& params) {
  return static_cast<std::size_t>(params.ith);
}

// Distributes the parts [0, count) of an operation among the threads: calls take(begin, end) until
// no parts are left. Each thread of the pool must call it. Starts with a barrier, so each thread
// sees what all did before.
template <typename Take>
void Share(const ggml_compute_params& params, std::size_t count, Take take) {
  if (params.ith == 0) module.set_share(params.threadpool, params.nth);
  module.barrier(params.threadpool);
  const auto threads = static_cast<std::size_t>(params.nth);
  const std::size_t shares = std::min(count, threads == 1 ? 1 : threads * kSharesPerThread);
  for (std::size_t share = ThreadOf(params); share < shares;
       share = static_cast<std::size_t>(module.add_share(params.threadpool, 1))) {
    take(count * share / shares, count * (share + 1) / shares);
  }
}

// ---- multiplication, and looking up -------------------------------------------------------------

bool HasOurWeights(const ggml_tensor* op) {
  const ggml_tensor* weights = op->src[0];
  return weights != nullptr && weights->buffer != nullptr && weights->buffer->buft == BufferType();
}

bool IsLookUp(const ggml_tensor* op) {
  return op->op == GGML_OP_GET_ROWS && std::string_view(op->src[0]->name) == kEmbeddings;
}

// Row `row` of a tensor of any number of dimensions, counted through all planes.
float* RowOf(const ggml_tensor* tensor, std::size_t row) {
  const auto row_count = static_cast<std::size_t>(tensor->ne[1]);
  const auto plane_count = static_cast<std::size_t>(tensor->ne[2]);
  const std::size_t plane = row / row_count;
  return reinterpret_cast<float*>(
      static_cast<char*>(tensor->data) + row % row_count * tensor->nb[1] +
      plane % plane_count * tensor->nb[2] + plane / plane_count * tensor->nb[3]);
}

// Operation: rows of activations times quantized weights.
class Multiplication final : public ggml::cpu::tensor_traits {
 public:
  explicit Multiplication(const MatrixKernel& kernel) : kernel_(kernel) {}

  bool work_size(int, const ggml_tensor* op, std::size_t& size) override {
    size = QuantizedRows::BytesFor(static_cast<std::size_t>(ggml_nrows(op->src[1])),
                                   static_cast<std::size_t>(op->src[1]->ne[0]));
    return true;
  }

  // Each thread of the pool calls it with a number of its own.
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const ggml_tensor* activations = op->src[1];
    const WeightMatrix matrix = *MatrixOf(op->src[0]);
    const QuantizedRows rows(static_cast<std::uint8_t*>(params->wdata),
                             static_cast<std::size_t>(ggml_nrows(activations)), matrix.depth,
                             FormatOf(matrix.type));
    for (std::size_t row = ThreadOf(*params); row < rows.rows();
         row += static_cast<std::size_t>(params->nth)) {
      rows.Set(row, RowOf(activations, row));
    }
    Share(*params, matrix.panels(),
          [&](std::size_t begin, std::size_t end) { Multiply(matrix, rows, begin, end, op); });
    return true;
  }

 private:
  void Multiply(const WeightMatrix& matrix, const QuantizedRows& rows, std::size_t panel,
                std::size_t end, const ggml_tensor* op) const {
    MultiplyPanel* const multiply = kernel_.multiply(matrix.type);
    for (; panel < end; ++panel) {
      for (std::size_t first = 0; first < rows.rows(); first += kRowGroup) {
        const RowBlock group = rows.Group(first);
        std::array<float*, kRowGroup> out{};
        for (std::size_t r = 0; r < group.size; ++r) {
          out[r] = RowOf(op, first + r) + panel * kPanel;
        }
        multiply(matrix, panel, group, out.data());
      }
    }
  }

  const MatrixKernel& kernel_;
};

// Operation: rows of activations times F16 weights in any buffer.
class HalfMultiplication final : public ggml::cpu::tensor_traits {
 public:
  explicit HalfMultiplication(HalfKernel kernel) : kernel_(kernel) {}

  static bool Takes(const ggml_tensor* op) {
    if (op->op != GGML_OP_MUL_MAT) return false;
    const ggml_tensor* weights = op->src[0];
    const ggml_tensor* input = op->src[1];
    return weights->type == GGML_TYPE_F16 && weights->nb[0] == sizeof(std::uint16_t) &&
           weights->nb[1] % sizeof(std::uint16_t) == 0 && ggml_n_dims(weights) <= 2 &&
           static_cast<std::size_t>(weights->ne[0]) % kHalfDepth == 0 &&
           input->type == GGML_TYPE_F32 && input->nb[0] == sizeof(float) &&
           static_cast<std::size_t>(ggml_nrows(input)) >= kHalfLeastRows &&
           op->type == GGML_TYPE_F32;
  }

  // Scratch for each thread: pointers to each row of activations and of outputs.
  bool work_size(int threads, const ggml_tensor* op, std::size_t& size) override {
    size = static_cast<std::size_t>(threads) * PlacesOf(op);
    return true;
  }

  // Each thread of the pool calls it with a number of its own.
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const ggml_tensor* weights = op->src[0];
    const HalfMatrix matrix{.data = static_cast<const std::uint16_t*>(weights->data),
                            .stride = weights->nb[1] / sizeof(std::uint16_t),
                            .outputs = static_cast<std::size_t>(weights->ne[1]),
                            .depth = static_cast<std::size_t>(weights->ne[0])};
    const auto count = static_cast<std::size_t>(ggml_nrows(op->src[1]));
    auto** const rows = reinterpret_cast<float**>(static_cast<std::uint8_t*>(params->wdata) +
                                                  ThreadOf(*params) * PlacesOf(op));
    float** const out = rows + count;
    for (std::size_t row = 0; row < count; ++row) {
      rows[row] = RowOf(op->src[1], row);
      out[row] = RowOf(op, row);
    }
    const std::size_t parts = (matrix.outputs + kHalfOutputs - 1) / kHalfOutputs;
    Share(*params, parts, [&](std::size_t begin, std::size_t end) {
      kernel_(matrix, begin * kHalfOutputs, std::min(end * kHalfOutputs, matrix.outputs), rows,
              count, out);
    });
    return true;
  }

 private:
  static std::size_t PlacesOf(const ggml_tensor* op) {
    const std::size_t bytes = 2 * sizeof(float*) * static_cast<std::size_t>(ggml_nrows(op->src[1]));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  const HalfKernel kernel_;
};

// Operation: for each token id, one output row of the weights.
class LookUp final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int, const ggml_tensor*, std::size_t& size) override {
    size = 0;
    return true;
  }

  // Each thread of the pool calls it with a number of its own.
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const WeightMatrix matrix = *MatrixOf(op->src[0]);
    const auto* tokens = static_cast<const std::int32_t*>(op->src[1]->data);
    const auto count = static_cast<std::size_t>(ggml_nelements(op->src[1]));
    for (std::size_t i = ThreadOf(*params); i < count; i += static_cast<std::size_t>(params->nth)) {
      ReadOutput(matrix, static_cast<std::size_t>(tokens[i]), RowOf(op, i));
    }
    return true;
  }
};

// ---- attention ----------------------------------------------------------------------------------

// Operation: each row of queries attends to its visible cells.
class AttentionOfAll final : public ggml::cpu::tensor_traits {
 public:
  explicit AttentionOfAll(AttentionKernel kernel) : kernel_(kernel) {}

  static bool Takes(const ggml_tensor* op) {
    if (op->op != GGML_OP_FLASH_ATTN_EXT) return false;
    const auto [queries, keys, values, mask] = SourcesOf(op);
    const bool are_types_known = queries->type == GGML_TYPE_F32 && keys->type == GGML_TYPE_F16 &&
                                 values->type == GGML_TYPE_F16 &&
                                 (mask == nullptr || mask->type == GGML_TYPE_F16);
    const bool is_one_plane =
        queries->ne[3] == 1 && (mask == nullptr || (mask->ne[2] == 1 && mask->ne[3] == 1));
    const bool has_sinks = op->src[4] != nullptr;
    return are_types_known && is_one_plane && !has_sinks && Parameter(op, kMaxBias) == 0 &&
           Parameter(op, kSoftCap) == 0 && keys->ne[0] == values->ne[0] &&
           CanAttend(static_cast<std::size_t>(keys->ne[0]));
  }

  bool work_size(int threads, const ggml_tensor* op, std::size_t& size) override {
    size = static_cast<std::size_t>(threads) * ScratchOf(op);
    return true;
  }

  // Each thread of the pool calls it with a number of its own.
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const auto [queries, keys, values, mask] = SourcesOf(op);
    const auto rows = static_cast<std::size_t>(queries->ne[1]);
    const auto heads = static_cast<std::size_t>(queries->ne[2]);
    const auto sharing = HeadsSharing(op);
    // Heads that share keys and values are computed together, unless that would leave threads idle.
    const bool is_small = rows * heads / sharing < static_cast<std::size_t>(params->nth);
    const std::size_t together = is_small ? 1 : sharing;
    const std::size_t parts = heads / together;
    std::uint8_t* scratch =
        static_cast<std::uint8_t*>(params->wdata) + ThreadOf(*params) * ScratchOf(op);
    Share(*params, rows * parts, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        kernel_(Of(op, i / parts, i % parts * together, together), scratch);
      }
    });
    return true;
  }

 private:
  // Indices of ggml_flash_attn_ext's parameters.
  enum ParameterIndex { kScale, kMaxBias, kSoftCap };
  static float Parameter(const ggml_tensor* op, ParameterIndex index) {
    return std::bit_cast<float>(op->op_params[index]);
  }

  static std::array<const ggml_tensor*, 4> SourcesOf(const ggml_tensor* op) {
    return {op->src[0], op->src[1], op->src[2], op->src[3]};
  }

  static std::size_t HeadsSharing(const ggml_tensor* op) {
    return static_cast<std::size_t>(op->src[0]->ne[2] / op->src[1]->ne[2]);
  }

  static std::size_t ScratchOf(const ggml_tensor* op) {
    return AttentionScratch(static_cast<std::size_t>(op->src[1]->ne[0]), HeadsSharing(op),
                            static_cast<std::size_t>(op->src[1]->ne[1]));
  }

  template <typename T>
  static T* At(const ggml_tensor* tensor, std::size_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + offset);
  }

  static Attention Of(const ggml_tensor* op, std::size_t row, std::size_t head, std::size_t heads) {
    const auto [queries, keys, values, mask] = SourcesOf(op);
    const std::size_t shared = head / HeadsSharing(op);
    return {.head_length = static_cast<std::size_t>(keys->ne[0]),
            .cells = static_cast<std::size_t>(keys->ne[1]),
            .keys = At<const std::uint16_t>(keys, shared * keys->nb[2]),
            .key_stride = keys->nb[1] / sizeof(std::uint16_t),
            .values = At<const std::uint16_t>(values, shared * values->nb[2]),
            .value_stride = values->nb[1] / sizeof(std::uint16_t),
            .mask = mask == nullptr ? nullptr : At<const std::uint16_t>(mask, row * mask->nb[1]),
            .scale = Parameter(op, kScale),
            .heads = heads,
            .queries = At<const float>(queries, row * queries->nb[1] + head * queries->nb[2]),
            .query_stride = queries->nb[2] / sizeof(float),
            .outputs = At<float>(op, row * op->nb[2] + head * op->nb[1]),
            .output_stride = op->nb[1] / sizeof(float)};
  }

  const AttentionKernel kernel_;
};

// ---- what ggml asks -----------------------------------------------------------------------------

// ggml's hooks: a memory layout for weights, and for each operation whether our kernels compute it.
class OwnKernels final : public ggml::cpu::extra_buffer_type {
 public:
  OwnKernels(const MatrixKernel& matrices, HalfKernel halves, AttentionKernel attention)
      : multiplication_(matrices), halves_(halves), attention_(attention) {}

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
      if (op->op == GGML_OP_MUL_MAT) return &multiplication_;
      if (IsLookUp(op)) return &look_up_;
    }
    if (HalfMultiplication::Takes(op)) return &halves_;
    return AttentionOfAll::Takes(op) ? &attention_ : nullptr;
  }

 private:
  Multiplication multiplication_;
  LookUp look_up_;
  HalfMultiplication halves_;
  AttentionOfAll attention_;
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

// Never destroyed: models may be freed after the end of main.
ggml_backend_buffer_type_t BufferType() {
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
      .context = new OwnKernels(MatrixKernels().front(), HalfKernels().front(),
                                AttentionKernels().front()),
  };
  return &type;
}

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// True if the library has the version of the headers that this file was compiled with: those are
// internal to ggml and may change with any version.
bool IsOfOurHeaders() { return std::string_view(ggml_version()) == SVC_GGML_VERSION; }

bool FindModule() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return false;
  void* known = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                  "ggml_threadpool_new");
  Dl_info info{};
  if (known == nullptr || dladdr(known, &info) == 0) return false;
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  using BufferTypes = std::vector<ggml_backend_buffer_type_t>&();
  BufferTypes* extra = nullptr;
  const bool found = Find(library, "_Z39ggml_backend_cpu_get_extra_buffer_typesv", extra) &&
                     Find(library, "ggml_barrier", module.barrier) &&
                     Find(library, "ggml_threadpool_chunk_set", module.set_share) &&
                     Find(library, "ggml_threadpool_chunk_add", module.add_share);
  module.extra_buffer_types = extra;
  return found;
}

}  // namespace

const MatrixKernel* UseOwnKernels() {
  static const MatrixKernel* const used = []() -> const MatrixKernel* {
    if (MatrixKernels().empty() || !IsOfOurHeaders() || !FindModule()) return nullptr;
    // After the buffer type of a matrix unit (AMX), but before ggml's repacking one.
    std::vector<ggml_backend_buffer_type_t>& types = module.extra_buffer_types();
    types.insert(types.empty() ? types.end() : types.end() - 1, BufferType());
    return &MatrixKernels().front();
  }();
  return used;
}

bool TakeAllOf(const std::string& path) {
  if (UseOwnKernels() == nullptr) return false;
  ggml_context* context = nullptr;
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = &context}), gguf_free);
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> tensors(context, ggml_free);
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
