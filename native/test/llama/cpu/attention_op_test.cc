// Attention as a node of a graph, in the layouts of a model's cache, compared with attention in
// double precision. Which nodes it takes.
#include "engine/llama/cpu/attention_op.h"

#include <cmath>
#include <random>
#include <vector>

#include "ggml-cpp.h"
#include "operation_run.h"
#include "test.h"

namespace svc {
namespace {

struct Shape {
  std::int64_t length;  // of a head
  std::int64_t heads;
  std::int64_t sharing;  // heads that share keys and values
  std::int64_t rows;
  std::int64_t cells;
  bool has_mask = true;
};

// A node with its inputs, filled at random. Row r sees the cells up to r of the last `rows`.
class Node {
 public:
  explicit Node(const Shape& shape)
      : shape_(shape),
        context_(ggml_init(
            {.mem_size = std::size_t{64} << 20U, .mem_buffer = nullptr, .no_alloc = false})) {
    // As libllama has them: a row or cell with all its heads, one after the other.
    queries_ = New(GGML_TYPE_F32, shape.length, shape.heads, shape.rows);
    keys_ = New(GGML_TYPE_F16, shape.length, shape.heads / shape.sharing, shape.cells);
    values_ = New(GGML_TYPE_F16, shape.length, shape.heads / shape.sharing, shape.cells);
    mask_ = shape.has_mask ? New(GGML_TYPE_F16, shape.cells, shape.rows, 1) : nullptr;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (ggml_tensor* each : {queries_, keys_, values_}) {
      SetAll(each, [&](std::int64_t, std::int64_t, std::int64_t) { return normal(random); });
    }
    if (mask_ != nullptr) {
      SetAll(mask_, [&](std::int64_t cell, std::int64_t row, std::int64_t) {
        return Sees(row, cell) ? 0.0F : -INFINITY;
      });
    }
    node_ = ggml_flash_attn_ext(context_.get(), Permuted(queries_), Permuted(keys_),
                                Permuted(values_), mask_, kScale, 0, 0);
  }

  ggml_tensor* node() { return node_; }
  ggml_context* context() { return context_.get(); }

  std::vector<float> Computed(const Kernels& kernels, int threads) {
    auto* const out = static_cast<float*>(node_->data);
    const auto size = static_cast<std::size_t>(ggml_nelements(node_));
    std::fill_n(out, size, NAN);
    test::Run(*NewAttention(kernels), node_, threads);
    return {out, out + size};
  }

  // [row][head][length]
  std::vector<double> Expected() {
    std::vector<double> expected;
    for (std::int64_t row = 0; row < shape_.rows; ++row) {
      for (std::int64_t head = 0; head < shape_.heads; ++head) {
        std::vector<double> sums(static_cast<std::size_t>(shape_.length), 0);
        double total = 0;
        for (std::int64_t cell = 0; cell < shape_.cells; ++cell) {
          if (!Sees(row, cell)) continue;
          double score = 0;
          for (std::int64_t i = 0; i < shape_.length; ++i) {
            score += static_cast<double>(At(queries_, i, head, row)) *
                     At(keys_, i, head / shape_.sharing, cell);
          }
          const double weight = std::exp(score * kScale);
          total += weight;
          for (std::int64_t i = 0; i < shape_.length; ++i) {
            sums[static_cast<std::size_t>(i)] +=
                weight * At(values_, i, head / shape_.sharing, cell);
          }
        }
        for (const double sum : sums) expected.push_back(sum / total);
      }
    }
    return expected;
  }

 private:
  static constexpr float kScale = 0.125F;

  bool Sees(std::int64_t row, std::int64_t cell) const {
    return !shape_.has_mask || cell <= shape_.cells - shape_.rows + row;
  }
  ggml_tensor* New(ggml_type type, std::int64_t a, std::int64_t b, std::int64_t c) {
    return ggml_new_tensor_3d(context_.get(), type, a, b, c);
  }
  ggml_tensor* Permuted(ggml_tensor* tensor) {
    return ggml_permute(context_.get(), tensor, 0, 2, 1, 3);
  }
  static char* Place(ggml_tensor* tensor, std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<char*>(tensor->data) + static_cast<std::size_t>(a) * tensor->nb[0] +
           static_cast<std::size_t>(b) * tensor->nb[1] +
           static_cast<std::size_t>(c) * tensor->nb[2];
  }
  static float At(ggml_tensor* tensor, std::int64_t a, std::int64_t b, std::int64_t c) {
    const char* const place = Place(tensor, a, b, c);
    if (tensor->type == GGML_TYPE_F32) return *reinterpret_cast<const float*>(place);
    return ggml_fp16_to_fp32(*reinterpret_cast<const ggml_fp16_t*>(place));
  }
  // Sets all numbers.
  template <typename ValueAt>
  static void SetAll(ggml_tensor* tensor, ValueAt value_at) {
    for (std::int64_t c = 0; c < tensor->ne[2]; ++c) {
      for (std::int64_t b = 0; b < tensor->ne[1]; ++b) {
        for (std::int64_t a = 0; a < tensor->ne[0]; ++a) {
          const float value = value_at(a, b, c);
          char* const place = Place(tensor, a, b, c);
          if (tensor->type == GGML_TYPE_F32) {
            *reinterpret_cast<float*>(place) = value;
          } else {
            *reinterpret_cast<ggml_fp16_t*>(place) = ggml_fp32_to_fp16(value);
          }
        }
      }
    }
  }

  const Shape shape_;
  const ggml_context_ptr context_;
  ggml_tensor* queries_ = nullptr;
  ggml_tensor* keys_ = nullptr;
  ggml_tensor* values_ = nullptr;
  ggml_tensor* mask_ = nullptr;
  ggml_tensor* node_ = nullptr;
};

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  EXPECT(worst < 1e-3);
}

TEST(EachRowAndHeadAttendsToItsCells) {
  for (const Kernels& kernels : SupportedKernels()) {
    for (const Shape& shape :
         {Shape{64, 4, 1, 1, 40}, Shape{64, 4, 4, 1, 40}, Shape{32, 6, 3, 5, 33},
          Shape{128, 8, 2, 19, 70}, Shape{256, 2, 1, 3, 20}, Shape{80, 3, 1, 9, 9},
          Shape{96, 4, 2, 1, 1}, Shape{64, 4, 2, 6, 50, /*has_mask=*/false}}) {
      Node node(shape);
      const std::vector<double> expected = node.Expected();
      const std::vector<float> alone = node.Computed(kernels, 1);
      ExpectNear(alone, expected);
      // Threads share the work in any way, and the results stay the same to the bit.
      for (const int threads : {2, 3, 7}) EXPECT(node.Computed(kernels, threads) == alone);
    }
  }
}

TEST(ItTakesNodesOfKnownTypesAndLengths) {
  const Shape plain{64, 4, 2, 3, 20};
  Node node(plain);
  EXPECT(TakesAttention(node.node()));
  Node without_mask({64, 4, 2, 3, 20, /*has_mask=*/false});
  EXPECT(TakesAttention(without_mask.node()));
  for (const std::int64_t length : {32, 64, 80, 96, 128, 256}) {
    Node known({length, 2, 1, 1, 4});
    EXPECT(TakesAttention(known.node()));
  }
  for (const std::int64_t length : {16, 48, 112, 192, 512}) {
    Node unknown({length, 2, 1, 1, 4});
    EXPECT(!TakesAttention(unknown.node()));
  }
}

TEST(ItLeavesOtherNodesToGgml) {
  const Shape shape{64, 4, 2, 3, 20};
  const auto takes = [&](auto change) {
    Node node(shape);
    change(node.node(), node.context());
    return TakesAttention(node.node());
  };
  EXPECT(takes([](ggml_tensor*, ggml_context*) {}));
  EXPECT(!takes([](ggml_tensor* op, ggml_context*) { op->op = GGML_OP_MUL_MAT; }));
  // The kinds of attention that the kernels do not compute.
  EXPECT(!takes([](ggml_tensor* op, ggml_context*) { ggml_set_op_params_f32(op, 1, 8.0F); }));
  EXPECT(!takes([](ggml_tensor* op, ggml_context*) { ggml_set_op_params_f32(op, 2, 30.0F); }));
  EXPECT(!takes([](ggml_tensor* op, ggml_context* context) {
    op->src[4] = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);  // sinks
  }));
  // Caches of other types.
  for (const int source : {0, 1, 2, 3}) {
    EXPECT(!takes([&](ggml_tensor* op, ggml_context* context) {
      const ggml_tensor* old = op->src[source];
      op->src[source] =
          ggml_new_tensor(context, source == 0 ? GGML_TYPE_F16 : GGML_TYPE_BF16, 4, old->ne);
    }));
  }
  // Several planes, and values that are shorter than keys.
  for (const int source : {0, 3}) {
    EXPECT(!takes([&](ggml_tensor* op, ggml_context* context) {
      ggml_tensor* const old = op->src[source];
      op->src[source] =
          ggml_new_tensor_4d(context, old->type, old->ne[0], old->ne[1], old->ne[2], 2);
    }));
  }
  EXPECT(!takes([](ggml_tensor* op, ggml_context* context) {
    ggml_tensor* const old = op->src[2];
    op->src[2] = ggml_new_tensor_3d(context, old->type, 32, old->ne[1], old->ne[2]);
  }));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
