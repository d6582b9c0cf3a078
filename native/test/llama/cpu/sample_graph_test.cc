// The graph on which kernels are compared and timed.
#include "engine/llama/cpu/sample_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

constexpr AttentionShape kShape{.head_length = 64, .heads = 2, .rows = 3, .cells = 40};

std::vector<float> ValuesOf(const ggml_tensor* tensor) {
  std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
  ggml_backend_tensor_get(tensor, values.data(), 0, ggml_nbytes(tensor));
  return values;
}

TEST(EveryGraphOfTheSameOperationsHasTheSameResults) {
  test::LoadModules();
  SampleGraph first;
  SampleGraph second;
  for (SampleGraph* graph : {&first, &second}) {
    graph->AddProducts();
    graph->AddAttention(kShape);
    REQUIRE(graph->Allocate(ggml_backend_cpu_buffer_type()));
    REQUIRE(graph->Compute());
  }
  REQUIRE(first.results().size() == second.results().size());
  EXPECT_EQ(std::string(first.results().back().first), "attention");
  for (std::size_t i = 0; i < first.results().size(); ++i) {
    const std::vector<float> values = ValuesOf(first.results()[i].second);
    EXPECT(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
    EXPECT(values == ValuesOf(second.results()[i].second));
  }
}

TEST(TheMaskSaysWhichCellsARowSees) {
  test::LoadModules();
  SampleGraph graph;
  ggml_tensor* mask = graph.AddAttention(kShape);
  REQUIRE(graph.Allocate(ggml_backend_cpu_buffer_type()));
  // The first row sees the first cell only, so its result is that cell's value for every head.
  std::vector<ggml_fp16_t> bias(static_cast<std::size_t>(ggml_nelements(mask)));
  std::fill(bias.begin() + 1, bias.begin() + kShape.cells, ggml_fp32_to_fp16(-INFINITY));
  ggml_backend_tensor_set(mask, bias.data(), 0, ggml_nbytes(mask));
  REQUIRE(graph.Compute());
  const std::vector<float> values = ValuesOf(graph.results().back().second);
  const auto length = static_cast<std::size_t>(kShape.head_length);
  // Layout: [row][head][element].
  for (std::size_t i = 0; i < length; ++i) EXPECT(values[i] == values[length + i]);
  const std::vector<float> next(values.begin() + 2 * static_cast<std::ptrdiff_t>(length),
                                values.end());
  EXPECT(!std::equal(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(length),
                     next.begin() + static_cast<std::ptrdiff_t>(length)));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
