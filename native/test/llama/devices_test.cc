#include "engine/llama/devices.h"

#include "engine/engine.h"
#include "ggml-backend-impl.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

// Must be the first test: no backend may be loaded yet.
TEST(AFolderWithoutModulesIsNoEngine) {
  SetLogSink(nullptr);
  if (!ListDevices().empty()) return;  // a build with the CPU backend linked in
  const Status status = LoadBackends("/nonexistent");
  EXPECT_EQ(status.code(), StatusCode::kEngineUnavailable);
  const Result<std::unique_ptr<Engine>> engine = Engine::Load({.path = test::TinyModels()[0]}, {});
  EXPECT_EQ(engine.status().code(), StatusCode::kEngineUnavailable);
}

TEST(TheProcessorIsADevice) {
  test::LoadModules();
  test::LoadModules();  // idempotent
  const std::vector<Device> devices = ListDevices();
  const auto cpus = std::count_if(devices.begin(), devices.end(),
                                  [](const Device& device) { return device.type == "cpu"; });
  EXPECT_EQ(cpus, 1);
  for (const Device& device : devices) {
    EXPECT(!device.name.empty() && !device.description.empty() && !device.backend.empty());
    EXPECT(device.memory_free_bytes.value_or(0) <= device.memory_total_bytes.value_or(0));
    EXPECT(device.type != "cpu" || !device.memory_free_bytes.has_value());
    std::printf("     %s: %s\n", device.name.c_str(), device.description.c_str());
  }
  EXPECT(CpuFeatures().starts_with("CPU : "));
}

TEST(EveryDeviceMultipliesRightly) {
  test::LoadModules();
  const std::size_t count = ListDevices().size();
  for (std::size_t i = 0; i < count; ++i) {
    const Result<double> gflops = MeasureDevice(i);
    REQUIRE(gflops.ok());
    EXPECT(gflops.value() > 0.1 && gflops.value() < 1e6);
    std::printf("     %.1f GFLOP/s\n", gflops.value());
  }
  EXPECT_EQ(MeasureDevice(count).status().code(), StatusCode::kInvalidRequest);
}

// Must be the last test: it registers a device that cannot compute and cannot be removed.
TEST(FreeMemoryIsAskedForAnewAndUnknownWhereAllOfItIsCalledFree) {
  test::LoadModules();
  static std::size_t free_bytes = 0;
  ggml_backend_device card{};
  card.iface.get_name = [](ggml_backend_dev_t) { return "Card0"; };
  card.iface.get_description = card.iface.get_name;
  card.iface.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
  card.iface.get_memory = [](ggml_backend_dev_t, std::size_t* free, std::size_t* total) {
    *free = free_bytes;
    *total = 1000;
  };
  card.reg = ggml_backend_dev_backend_reg(ggml_backend_dev_get(0));
  static ggml_backend_device registered = card;
  ggml_backend_device_register(&registered);

  const auto measured = [](std::size_t bytes) {
    free_bytes = bytes;
    return ListDevices().back().memory_free_bytes;
  };
  EXPECT_EQ(ListDevices().back().name, "Card0");
  EXPECT(measured(999) == 999U);
  EXPECT(measured(0) == 0U);
  EXPECT(!measured(1000).has_value());
  EXPECT(!measured(SIZE_MAX - 5).has_value());  // underflow: more used than available
}

}  // namespace
}  // namespace svc

TEST_MAIN()
