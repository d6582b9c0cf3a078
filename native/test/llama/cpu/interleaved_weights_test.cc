// Our matrix kernels inside ggml: compares graphs with weights in our layout and in ggml's. Without
// kernels that support this processor, most tests skip.
#include "engine/llama/cpu/interleaved_weights.h"

#include <cmath>
#include <cstring>
#include <random>

#include "engine/llama/cpu/cpu_kernels.h"
#include "engine/llama/devices.h"
#include "folder.h"
#include "ggml-cpp.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

// Returns the CPU device's extra buffer type for weights with this name, or null.
ggml_backend_buffer_type_t ExtraBufferType(const std::string& name) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  for (ggml_backend_buffer_type_t* type = list(device); *type != nullptr; ++type) {
    if (ggml_backend_buft_name(*type) == name) return *type;
  }
  return nullptr;
}

struct Shape {
  ggml_type type;
  std::int64_t depth;
  std::int64_t outputs;
  std::int64_t rows;
  std::int64_t planes;
};

// Product of weights and rows, [plane][row][output]; or look-up of the weights of outputs.
enum class Operation { kMultiply, kLookUp };

// Runs the operation with fixed random weights in a buffer of this type. Empty if the CPU backend
// does not support it.
std::vector<float> Compute(Operation operation, const Shape& shape, ggml_backend_buffer_type_t type,
                           int threads) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const ggml_backend_ptr backend(ggml_backend_dev_init(device, nullptr));
  const auto set_threads =
      reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  set_threads(backend.get(), threads);
  const auto new_context = [] {
    return ggml_context_ptr(
        ggml_init({.mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
  };
  const ggml_context_ptr of_weights = new_context();
  const ggml_context_ptr context = new_context();
  ggml_tensor* weights =
      ggml_new_tensor_2d(of_weights.get(), shape.type, shape.depth, shape.outputs);
  const ggml_backend_buffer_ptr weights_buffer(
      ggml_backend_alloc_ctx_tensors_from_buft(of_weights.get(), type));
  ggml_set_name(weights, "token_embd.weight");
  const bool is_product = operation == Operation::kMultiply;
  ggml_tensor* input = is_product ? ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, shape.depth,
                                                       shape.rows, shape.planes)
                                  : ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, shape.rows);
  ggml_tensor* product = is_product ? ggml_mul_mat(context.get(), weights, input)
                                    : ggml_get_rows(context.get(), weights, input);
  if (!ggml_backend_supports_op(backend.get(), product)) return {};
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, product);
  const ggml_backend_buffer_ptr buffer(
      ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = normal(random);
    return numbers;
  };
  const std::vector<float> plain = fill(ggml_nelements(weights));
  std::vector<std::uint8_t> quantized(ggml_nbytes(weights));
  ggml_quantize_chunk(shape.type, plain.data(), quantized.data(), 0, shape.outputs, shape.depth,
                      nullptr);
  ggml_backend_tensor_set(weights, quantized.data(), 0, quantized.size());
  if (is_product) {
    const std::vector<float> rows = fill(ggml_nelements(input));
    ggml_backend_tensor_set(input, rows.data(), 0, ggml_nbytes(input));
  } else {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(shape.rows));
    for (std::int32_t& number : numbers) {
      number = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(shape.outputs));
    }
    ggml_backend_tensor_set(input, numbers.data(), 0, ggml_nbytes(input));
  }
  EXPECT_EQ(ggml_backend_graph_compute(backend.get(), graph), GGML_STATUS_SUCCESS);
  std::vector<float> result(static_cast<std::size_t>(ggml_nelements(product)));
  ggml_backend_tensor_get(product, result.data(), 0, ggml_nbytes(product));
  return result;
}

TEST(AGraphComputesWithItWhatItComputesWithGgmlsOwn) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  ggml_backend_buffer_type_t ours = ExtraBufferType("SVC_INTERLEAVED");
  REQUIRE(ours != nullptr);
  for (const Shape& shape :
       {Shape{GGML_TYPE_Q4_0, 64, 16, 1, 1}, Shape{GGML_TYPE_Q4_0, 896, 128, 3, 1},
        Shape{GGML_TYPE_Q4_0, 896, 4864, 17, 1}, Shape{GGML_TYPE_Q4_0, 256, 512, 5, 3},
        Shape{GGML_TYPE_Q5_0, 896, 128, 9, 1}, Shape{GGML_TYPE_Q8_0, 896, 128, 9, 1},
        Shape{GGML_TYPE_Q4_K, 1024, 128, 9, 1}, Shape{GGML_TYPE_Q5_K, 1024, 128, 9, 1},
        Shape{GGML_TYPE_Q6_K, 1024, 128, 9, 1}}) {
    const std::vector<float> expected =
        Compute(Operation::kMultiply, shape, ggml_backend_cpu_buffer_type(), 1);
    for (const int threads : {1, 2, 3}) {
      const std::vector<float> actual = Compute(Operation::kMultiply, shape, ours, threads);
      REQUIRE(actual.size() == expected.size());
      double difference = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        difference += std::abs(static_cast<double>(actual[i]) - expected[i]);
        magnitude += std::abs(static_cast<double>(expected[i]));
      }
      // ggml stores the scales of activations as half floats, and for weights in blocks of 256 only
      // one scale per 256 activations.
      EXPECT(difference < (ggml_blck_size(shape.type) == 256 ? 0.02 : 0.001) * magnitude);
    }
  }
}

// Half-float weights are not interleaved; ggml's kernel multiplies few rows, ours many.
TEST(ManyRowsTimesHalfFloatsAreWhatFewAre) {
  test::LoadModules();
  for (const std::int64_t outputs : {16, 130}) {
    const Shape few{GGML_TYPE_F16, 896, outputs, 3, 1};
    const std::vector<float> expected =
        Compute(Operation::kMultiply, few, ggml_backend_cpu_buffer_type(), 1);
    for (const int threads : {1, 3}) {
      Shape many = few;
      many.rows = 40;
      const std::vector<float> actual =
          Compute(Operation::kMultiply, many, ggml_backend_cpu_buffer_type(), threads);
      REQUIRE(actual.size() > expected.size());
      double difference = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        difference += std::abs(static_cast<double>(actual[i]) - expected[i]);
        magnitude += std::abs(static_cast<double>(expected[i]));
      }
      EXPECT(difference < 0.001 * magnitude);
    }
  }
}

TEST(TokensAreLookedUpAsGgmlReadsThem) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K,
                               GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
    const Shape shape{type, 512, 64, 9, 1};
    const auto look_up = [&](ggml_backend_buffer_type_t buffer_type) {
      return Compute(Operation::kLookUp, shape, buffer_type, 2);
    };
    const std::vector<float> expected = look_up(ggml_backend_cpu_buffer_type());
    EXPECT_EQ(expected.size(), 9U * 512);
    EXPECT(look_up(ExtraBufferType("SVC_INTERLEAVED")) == expected);
    const EmbeddingsInMemory none(false);
    EXPECT(look_up(ExtraBufferType("SVC_INTERLEAVED")).empty());
  }
}

// Embeddings are copied only if our kernels take every matrix of the file.
TEST(AFileIsCopiedWhereNothingOfItIsLeft) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  const std::string models(SVC_TEST_MODELS);
  EXPECT(TakeAllOf(models + "/tiny-qwen2.gguf"));
  EXPECT(!TakeAllOf(models + "/tiny-gemma.gguf"));
  EXPECT(!TakeAllOf(models + "/none.gguf"));
}

// gemma3n has per-layer embeddings, the larger part of the file, of which a text needs few rows:
// they must stay mapped.
TEST(AFileWithMoreToLookUpStaysMapped) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  const test::Folder folder;
  const auto takes_all = [&](std::initializer_list<const char*> names) {
    const ggml_context_ptr tensors(ggml_init(
        {.mem_size = ggml_tensor_overhead() * 8, .mem_buffer = nullptr, .no_alloc = true}));
    const gguf_context_ptr file(gguf_init_empty());
    for (const char* name : names) {
      ggml_tensor* tensor = ggml_new_tensor_2d(tensors.get(), GGML_TYPE_Q4_0, 64, 32);
      ggml_set_name(tensor, name);
      gguf_add_tensor(file.get(), tensor);
    }
    const std::string path = (folder.path() / "model.gguf").string();
    EXPECT(gguf_write_to_file(file.get(), path.c_str(), /*only_meta=*/true));
    return TakeAllOf(path);
  };
  EXPECT(takes_all({"token_embd.weight", "blk.0.attn_q.weight"}));
  EXPECT(!takes_all({"token_embd.weight", "per_layer_token_embd.weight"}));
  EXPECT(!takes_all({"token_embd.weight", "output.weight"}));
  EXPECT(!takes_all({"blk.0.attn_q.weight"}));
}

TEST(WhatItCannotInterleaveIsLeftToOthers) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  EXPECT(Compute(Operation::kMultiply, {GGML_TYPE_Q4_0, 64, 24, 1, 1},
                 ExtraBufferType("SVC_INTERLEAVED"), 1)
             .empty());
}

TEST(AModelOfQ4ComputesWithIt) {
  test::LoadModules();
  if (UseOwnKernels() == nullptr) return;
  EXPECT(ExtraBufferType("AMX") == nullptr);
  std::string lines;
  SetLogSink([&](const char*, const char* text) { lines += text; });
  const Result<std::unique_ptr<LlamaModel>> model =
      LlamaModel::Load({.path = test::ModelPath("tiny-qwen2")});
  SetLogSink(nullptr);
  EXPECT(model.ok());
  EXPECT(lines.find("SVC_INTERLEAVED model buffer size") != std::string::npos);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
