// Our kernels are registered in ggml, and its graphs use them.
#include "engine/llama/cpu/cpu_kernels.h"

#include <cstdio>
#include <vector>

#include "engine/llama/cpu/attention_op.h"
#include "engine/llama/cpu/sample_graph.h"
#include "models.h"
#include "operation_run.h"
#include "test.h"

namespace svc {
namespace {

TEST(TheyAreUsedWhereTheProcessorHasTheInstructions) {
  test::LoadModules();
  const bool are_supported = !SupportedKernels().empty();
  // Others are used only if they are not slower on this machine.
  if (are_supported && !SupportedKernels().front().are_measured) return;
  EXPECT_EQ(UseOwnKernels() != nullptr, are_supported);
}

std::vector<float> OutputOf(const ggml_tensor* node) {
  std::vector<float> values(static_cast<std::size_t>(ggml_nelements(node)));
  ggml_backend_tensor_get(node, values.data(), 0, ggml_nbytes(node));
  return values;
}

// To the bit: ggml's kernel rounds differently.
TEST(AGraphAttendsWithOurKernel) {
  test::LoadModules();
  const Kernels* kernels = UseOwnKernels();
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
