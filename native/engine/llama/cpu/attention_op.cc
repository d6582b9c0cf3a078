#include "engine/llama/cpu/attention_op.h"

#include <algorithm>
#include <array>
#include <bit>

#include "engine/llama/cpu/thread_shares.h"

namespace svc {
namespace {

// Indices of ggml_flash_attn_ext's parameters.
enum ParameterIndex { kScale, kMaxBias, kSoftCap };
float Parameter(const ggml_tensor* op, ParameterIndex index) {
  return std::bit_cast<float>(op->op_params[index]);
}

std::array<const ggml_tensor*, 4> SourcesOf(const ggml_tensor* op) {
  return {op->src[0], op->src[1], op->src[2], op->src[3]};
}

class AttentionOfAll final : public ggml::cpu::tensor_traits {
 public:
  explicit AttentionOfAll(const Kernels& kernels) : kernels_(kernels) {}

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
    const std::size_t block = BlockOf(rows * parts, static_cast<std::size_t>(params->nth));
    const std::size_t blocks = (rows + block - 1) / block;
    std::uint8_t* scratch =
        static_cast<std::uint8_t*>(params->wdata) + ThreadOf(*params) * ScratchOf(op);
    Share(*params, blocks * parts, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t first = i / parts * block;
        const RowsAndHeads piece{.first_row = first,
                                 .rows = std::min(block, rows - first),
                                 .first_head = i % parts * together,
                                 .heads = together};
        kernels_.attend(Of(op, piece), scratch);
      }
    });
    return true;
  }

 private:
  struct RowsAndHeads {
    std::size_t first_row;
    std::size_t rows;
    std::size_t first_head;
    std::size_t heads;
  };

  // Rows to compute together, of `count` rows and parts in all: as many as leave each thread
  // several pieces of work.
  static std::size_t BlockOf(std::size_t count, std::size_t threads) {
    return std::clamp<std::size_t>(count / (threads * kSharesPerThread), 1, kAttentionRows);
  }

  static std::size_t HeadsSharing(const ggml_tensor* op) {
    return static_cast<std::size_t>(op->src[0]->ne[2] / op->src[1]->ne[2]);
  }

  static std::size_t ScratchOf(const ggml_tensor* op) {
    return AttentionScratch(static_cast<std::size_t>(op->src[1]->ne[0]), kAttentionRows,
                            HeadsSharing(op), static_cast<std::size_t>(op->src[1]->ne[1]));
  }

  template <typename T>
  static T* At(const ggml_tensor* tensor, std::size_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + offset);
  }

  static Attention Of(const ggml_tensor* op, const RowsAndHeads& piece) {
    const auto [queries, keys, values, mask] = SourcesOf(op);
    const auto [row, rows, head, heads] = piece;
    const std::size_t shared = head / HeadsSharing(op);
    return {.head_length = static_cast<std::size_t>(keys->ne[0]),
            .cells = static_cast<std::size_t>(keys->ne[1]),
            .keys = At<const std::uint16_t>(keys, shared * keys->nb[2]),
            .key_stride = keys->nb[1] / sizeof(std::uint16_t),
            .values = At<const std::uint16_t>(values, shared * values->nb[2]),
            .value_stride = values->nb[1] / sizeof(std::uint16_t),
            .mask = mask == nullptr ? nullptr : At<const std::uint16_t>(mask, row * mask->nb[1]),
            .mask_stride = mask == nullptr ? 0 : mask->nb[1] / sizeof(std::uint16_t),
            .scale = Parameter(op, kScale),
            .rows = rows,
            .heads = heads,
            .queries = At<const float>(queries, row * queries->nb[1] + head * queries->nb[2]),
            .query_row_stride = queries->nb[1] / sizeof(float),
            .query_stride = queries->nb[2] / sizeof(float),
            .outputs = At<float>(op, row * op->nb[2] + head * op->nb[1]),
            .output_row_stride = op->nb[2] / sizeof(float),
            .output_stride = op->nb[1] / sizeof(float)};
  }

  const Kernels& kernels_;
};

}  // namespace

Operation NewAttention(const Kernels& kernels) { return std::make_unique<AttentionOfAll>(kernels); }

bool TakesAttention(const ggml_tensor* op) {
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

}  // namespace svc
