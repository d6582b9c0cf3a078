// The memory of projectors, without loading them.
#include "engine/llama/projector_memory.h"

#include <filesystem>
#include <string>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

std::string ProjectorPath(const std::string& name) { return test::ModelPath("projectors/" + name); }

// Bytes on all devices together. The processor has a name, too.
std::uint64_t BytesOf(const LoadOptions& options) {
  std::uint64_t sum = 0;
  for (const auto& [device, bytes] : ProjectorBytes(options)) {
    EXPECT(!device.empty());
    sum += bytes;
  }
  return sum;
}

TEST(EachProjectorTakesAtLeastItsWeights) {
  test::LoadModules();
  for (const char* name : {"clip", "qwen2-vl", "siglip", "whisper"}) {
    const LoadOptions options{.gpu_layers = 0, .projector_path = ProjectorPath(name)};
    const std::uint64_t bytes = BytesOf(options);
    EXPECT(bytes > std::filesystem::file_size(options.projector_path) / 2);
    EXPECT(bytes < std::uint64_t{4} << 30U);
  }
}

TEST(WithoutAGpuAllOfItIsOnTheProcessor) {
  test::LoadModules();
  const auto bytes = ProjectorBytes({.gpu_layers = 0, .projector_path = ProjectorPath("clip")});
  REQUIRE(bytes.size() == 1);
  EXPECT_EQ(bytes[0].first, "CPU");
}

TEST(WhatCannotBeUsedTakesNothing) {
  test::LoadModules();
  EXPECT(ProjectorBytes({.gpu_layers = 0}).empty());
  EXPECT(ProjectorBytes({.gpu_layers = 0, .projector_path = "/none.gguf"}).empty());
  // A model is no projector.
  EXPECT(ProjectorBytes({.gpu_layers = 0, .projector_path = test::TinyModels()[0]}).empty());
}

TEST(TheParametersFollowTheOptions) {
  test::LoadModules();
  EXPECT(!ProjectorParams({.gpu_layers = 0}, 1).use_gpu);
  EXPECT(ProjectorParams({.gpu_layers = -1}, 1).use_gpu);
  EXPECT(ProjectorParams({.gpu_layers = 5}, 1).use_gpu);
  const mtmd_context_params params = ProjectorParams({.gpu_layers = 0}, 3);
  EXPECT_EQ(params.n_threads, 3);
  EXPECT(!params.print_timings && params.warmup);
  // A GPU that does not exist is no reason to fail here; the model reports it.
  EXPECT(ProjectorParams({.gpu_layers = 0, .main_gpu = "none"}, 1).device == nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
