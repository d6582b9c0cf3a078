#include "engine/llama/cpu/matrix_ops.h"

#include <algorithm>
#include <array>

#include "engine/llama/cpu/thread_shares.h"
#include "kernels/quantized_rows.h"

namespace svc {
namespace {

std::optional<WeightType> TypeOf(ggml_type type) {
  for (const auto& [theirs, ours] : kGgmlTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

// Operation: rows of activations times quantized weights.
class Multiplication final : public ggml::cpu::tensor_traits {
 public:
  explicit Multiplication(const Kernels& kernels) : kernels_(kernels) {}

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
    MultiplyPanel* const multiply = kernels_.multiply(matrix.type);
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

  const Kernels& kernels_;
};

// Operation: rows of activations times F16 weights in any buffer.
class HalfMultiplication final : public ggml::cpu::tensor_traits {
 public:
  explicit HalfMultiplication(const Kernels& kernels) : kernels_(kernels) {}

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
      kernels_.multiply_halves(matrix, begin * kHalfOutputs,
                               std::min(end * kHalfOutputs, matrix.outputs), rows, count, out);
    });
    return true;
  }

 private:
  static std::size_t PlacesOf(const ggml_tensor* op) {
    const std::size_t bytes = 2 * sizeof(float*) * static_cast<std::size_t>(ggml_nrows(op->src[1]));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  const Kernels& kernels_;
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

}  // namespace

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

Operation NewProduct(const Kernels& kernels) { return std::make_unique<Multiplication>(kernels); }

Operation NewLookUp() { return std::make_unique<LookUp>(); }

Operation NewHalfProduct(const Kernels& kernels) {
  return std::make_unique<HalfMultiplication>(kernels);
}

bool TakesHalfProduct(const ggml_tensor* op) {
  if (op->op != GGML_OP_MUL_MAT) return false;
  const ggml_tensor* weights = op->src[0];
  const ggml_tensor* input = op->src[1];
  return weights->type == GGML_TYPE_F16 && weights->nb[0] == sizeof(std::uint16_t) &&
         weights->nb[1] % sizeof(std::uint16_t) == 0 && ggml_n_dims(weights) <= 2 &&
         static_cast<std::size_t>(weights->ne[0]) % kHalfDepth == 0 &&
         input->type == GGML_TYPE_F32 && input->nb[0] == sizeof(float) &&
         static_cast<std::size_t>(ggml_nrows(input)) >= kHalfLeastRows && op->type == GGML_TYPE_F32;
}

}  // namespace svc
