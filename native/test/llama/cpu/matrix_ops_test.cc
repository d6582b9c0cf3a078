// Products and look-ups as nodes of a graph, compared with sums in double precision. Which tensors
// and nodes they take.
#include "engine/llama/cpu/matrix_ops.h"

#include <cmath>
#include <random>
#include <vector>

#include "ggml-cpp.h"
#include "operation_run.h"
#include "test.h"

namespace svc {
namespace {

ggml_context_ptr NewContext() {
  return ggml_context_ptr(
      ggml_init({.mem_size = std::size_t{64} << 20U, .mem_buffer = nullptr, .no_alloc = false}));
}

std::vector<float> Random(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Weights as a file has them, and as our operations take them.
class Weights {
 public:
  Weights(ggml_context* context, ggml_type type, std::int64_t depth, std::int64_t outputs)
      : tensor(ggml_new_tensor_2d(context, type, depth, outputs)),
        bytes_(MatrixOf(tensor) ? MatrixOf(tensor)->bytes() : ggml_nbytes(tensor)) {
    const std::vector<float> plain = Random(depth * outputs, 1);
    std::vector<std::uint8_t> quantized(ggml_nbytes(tensor));
    ggml_quantize_chunk(type, plain.data(), quantized.data(), 0, outputs, depth, nullptr);
    values.resize(plain.size());
    ggml_get_type_traits(type)->to_float(quantized.data(), values.data(), depth * outputs);
    tensor->data = bytes_.data();
    Interleave(quantized.data(), *MatrixOf(tensor));
  }

  ggml_tensor* const tensor;
  std::vector<float> values;  // [output][depth]

 private:
  const test::AlignedBytes bytes_;
};

constexpr ggml_type kTypes[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0,
                                GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

// Computes the node, from NaN.
std::vector<float> Computed(const Operation& operation, ggml_tensor* node, int threads) {
  auto* const out = static_cast<float*>(node->data);
  const auto size = static_cast<std::size_t>(ggml_nelements(node));
  std::fill_n(out, size, NAN);
  test::Run(*operation, node, threads);
  return {out, out + size};
}

// `row(i)` returns row i of the activations.
template <typename RowAt>
void ExpectProduct(const std::vector<float>& actual, const std::vector<float>& weights,
                   std::size_t depth, std::size_t rows, double tolerance, RowAt row) {
  const std::size_t outputs = weights.size() / depth;
  REQUIRE(actual.size() == rows * outputs);
  double difference = 0;
  double magnitude = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const activations = row(r);
    for (std::size_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::size_t i = 0; i < depth; ++i) {
        sum += static_cast<double>(activations[i]) * weights[o * depth + i];
      }
      difference += std::abs(actual[r * outputs + o] - sum);
      magnitude += std::abs(sum);
    }
  }
  EXPECT(difference < tolerance * magnitude);  // false for NaN
}

TEST(AMatrixIsWhatCanBeInterleaved) {
  const ggml_context_ptr context = NewContext();
  const auto has_matrix = [&](ggml_type type, std::int64_t depth, std::int64_t outputs,
                              std::int64_t planes = 1) {
    return MatrixOf(ggml_new_tensor_3d(context.get(), type, depth, outputs, planes)).has_value();
  };
  for (const ggml_type type : kTypes) {
    EXPECT(has_matrix(type, 512, 32));
    EXPECT(!has_matrix(type, 512, 33) && !has_matrix(type, 512, 8));
    EXPECT(!has_matrix(type, 512, 32, 2));
  }
  EXPECT(has_matrix(GGML_TYPE_Q4_0, 32, 16));
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_1, GGML_TYPE_Q2_K, GGML_TYPE_IQ4_NL}) {
    EXPECT(!has_matrix(type, 512, 32));
  }
  ggml_tensor* const tensor = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q5_K, 512, 32);
  const WeightMatrix matrix = *MatrixOf(tensor);
  EXPECT(matrix.type == WeightType::kQ5K && matrix.outputs == 32 && matrix.depth == 512);
  EXPECT(matrix.data == tensor->data);
}

TEST(RowsAreMultipliedWithInterleavedWeights) {
  for (const Kernels& kernels : SupportedKernels()) {
    const Operation product = NewProduct(kernels);
    for (const ggml_type type : kTypes) {
      for (const std::int64_t rows : {1, 3, 9}) {
        const ggml_context_ptr context = NewContext();
        const Weights weights(context.get(), type, 512, 48);
        ggml_tensor* const input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 512, rows);
        const std::vector<float> activations = Random(512 * rows, 2);
        std::copy(activations.begin(), activations.end(), static_cast<float*>(input->data));
        ggml_tensor* const node = ggml_mul_mat(context.get(), weights.tensor, input);
        const std::vector<float> alone = Computed(product, node, 1);
        ExpectProduct(alone, weights.values, 512, static_cast<std::size_t>(rows), 0.02,
                      [&](std::size_t r) { return activations.data() + r * 512; });
        for (const int threads : {2, 5}) EXPECT(Computed(product, node, threads) == alone);
      }
    }
  }
}

// Rows in several planes, with other numbers between them.
TEST(RowsMayStandApart) {
  for (const Kernels& kernels : SupportedKernels()) {
    const ggml_context_ptr context = NewContext();
    const Weights weights(context.get(), GGML_TYPE_Q8_0, 256, 32);
    ggml_tensor* const all = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, 300, 4, 3);
    const std::vector<float> numbers = Random(300 * 4 * 3, 3);
    std::copy(numbers.begin(), numbers.end(), static_cast<float*>(all->data));
    ggml_tensor* const input =
        ggml_view_3d(context.get(), all, 256, 2, 3, all->nb[1], all->nb[2], all->nb[1]);
    ggml_tensor* const node = ggml_mul_mat(context.get(), weights.tensor, input);
    const auto row = [&](std::size_t r) { return numbers.data() + (r / 2 * 4 + 1 + r % 2) * 300; };
    for (const int threads : {1, 3}) {
      ExpectProduct(Computed(NewProduct(kernels), node, threads), weights.values, 256, 6, 0.02,
                    row);
    }
  }
}

TEST(TokensAreLookedUp) {
  for (const ggml_type type : kTypes) {
    const ggml_context_ptr context = NewContext();
    const Weights weights(context.get(), type, 512, 64);
    const std::vector<std::int32_t> tokens = {63, 0, 17, 17, 5, 40, 1};
    ggml_tensor* const ids =
        ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, static_cast<std::int64_t>(tokens.size()));
    std::copy(tokens.begin(), tokens.end(), static_cast<std::int32_t*>(ids->data));
    ggml_tensor* const node = ggml_get_rows(context.get(), weights.tensor, ids);
    std::vector<float> expected;
    for (const std::int32_t token : tokens) {
      const auto from = weights.values.begin() + token * 512;
      expected.insert(expected.end(), from, from + 512);
    }
    for (const int threads : {1, 2, 9}) EXPECT(Computed(NewLookUp(), node, threads) == expected);
  }
}

// ---- half floats --------------------------------------------------------------------------------

struct Halves {
  Halves(std::int64_t depth, std::int64_t outputs, std::int64_t rows)
      : context(NewContext()),
        weights(ggml_new_tensor_2d(context.get(), GGML_TYPE_F16, depth, outputs)),
        input(ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, depth, rows)),
        node(ggml_mul_mat(context.get(), weights, input)) {}

  const ggml_context_ptr context;
  ggml_tensor* const weights;
  ggml_tensor* const input;
  ggml_tensor* const node;
};

TEST(RowsAreMultipliedWithHalfFloats) {
  for (const Kernels& kernels : SupportedKernels()) {
    for (const std::int64_t outputs : {1, 12, 16, 130}) {
      for (const std::int64_t rows : {6, 7, 40}) {
        const Halves halves(96, outputs, rows);
        const std::vector<float> plain = Random(96 * outputs, 4);
        const std::vector<float> activations = Random(96 * rows, 5);
        auto* const stored = static_cast<ggml_fp16_t*>(halves.weights->data);
        ggml_fp32_to_fp16_row(plain.data(), stored, 96 * outputs);
        std::vector<float> weights(plain.size());
        ggml_fp16_to_fp32_row(stored, weights.data(), 96 * outputs);
        std::copy(activations.begin(), activations.end(), static_cast<float*>(halves.input->data));
        const Operation product = NewHalfProduct(kernels);
        const std::vector<float> alone = Computed(product, halves.node, 1);
        ExpectProduct(alone, weights, 96, static_cast<std::size_t>(rows), 0.001,
                      [&](std::size_t r) { return activations.data() + r * 96; });
        for (const int threads : {2, 5}) EXPECT(Computed(product, halves.node, threads) == alone);
      }
    }
  }
}

TEST(TheHalfProductTakesManyRowsOfKnownDepths) {
  const auto takes = [](std::int64_t depth, std::int64_t rows) {
    return TakesHalfProduct(Halves(depth, 20, rows).node);
  };
  const auto least = static_cast<std::int64_t>(kHalfLeastRows);
  const auto depth = static_cast<std::int64_t>(kHalfDepth);
  EXPECT(takes(depth, least) && takes(10 * depth, 1000));
  EXPECT(!takes(depth, least - 1));
  EXPECT(!takes(depth + 1, least) && !takes(depth / 2, least));
}

TEST(TheHalfProductLeavesOtherNodesToGgml) {
  const auto takes = [](auto change) {
    Halves halves(64, 20, 10);
    change(halves);
    return TakesHalfProduct(halves.node);
  };
  EXPECT(takes([](Halves&) {}));
  EXPECT(!takes([](Halves& of) { of.node->op = GGML_OP_ADD; }));
  EXPECT(!takes([](Halves& of) { of.weights->type = GGML_TYPE_BF16; }));
  EXPECT(!takes([](Halves& of) { of.input->type = GGML_TYPE_F16; }));
  EXPECT(!takes([](Halves& of) { of.node->type = GGML_TYPE_F16; }));
  EXPECT(!takes([](Halves& of) { of.weights->ne[2] = 2; }));
  // Numbers that are not beside each other, or weights between two numbers.
  EXPECT(!takes([](Halves& of) { of.weights->nb[0] = 4; }));
  EXPECT(!takes([](Halves& of) { of.weights->nb[1] += 1; }));
  EXPECT(!takes([](Halves& of) { of.input->nb[0] = 8; }));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
