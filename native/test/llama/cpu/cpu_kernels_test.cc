// Our kernels are registered in ggml, and its graphs use them.
#include "engine/llama/cpu/cpu_kernels.h"

#include <cstdio>
#include <vector>

#include "engine/llama/cpu/attention_op.h"
#include "engine/llama/cpu/sample_graph.h"
#include "llama.h"
#include "operation_run.h"
#include "test.h"

namespace svc {
namespace {

// Loads ggml's modules. The kernels are used if they are right, not only if they are fast: an
// emulator's times are its own.
const Kernels* Load() {
  static const Kernels* const used = [] {
    ggml_backend_load_all_from_path(SVC_TEST_MODULES);
    llama_backend_init();
    return UseOwnKernels([](const auto& /*use_ours*/) { return false; });
  }();
  return used;
}

TEST(TheyAreUsedWhereTheProcessorHasTheInstructions) {
  EXPECT_EQ(Load() != nullptr, !SupportedKernels().empty());
}

std::vector<float> OutputOf(const ggml_tensor* node) {
  std::vector<float> values(static_cast<std::size_t>(ggml_nelements(node)));
  ggml_backend_tensor_get(node, values.data(), 0, ggml_nbytes(node));
  return values;
}

// To the bit: ggml's kernel rounds differently.
TEST(AGraphAttendsWithOurKernel) {
  const Kernels* kernels = Load();
  std::printf("     used: %s\n", kernels == nullptr ? "none" : kernels->instructions);
  if (kernels == nullptr) return;
  SampleGraph graph;
  graph.AddAttention({.head_length = 64, .heads = 3, .rows = 5, .cells = 70});
  REQUIRE(graph.Allocate(ggml_backend_cpu_buffer_type()));
  EXPECT(graph.Compute());
  ggml_tensor* node = graph.results().front().second;
  const std::vector<float> of_graph = OutputOf(node);
  const PoolFunctions of_module = pool;
  test::Run(*NewAttention(*kernels), node, 1);
  pool = of_module;
  EXPECT(OutputOf(node) == of_graph);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
