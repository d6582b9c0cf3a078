// The self-test finds kernels whose results differ from ggml's.
#include "engine/llama/cpu/kernel_samples.h"

#include <cmath>
#include <string>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

std::vector<KernelSample> Samples() {
  test::LoadModules();
  return ComputeSamples(ggml_backend_cpu_buffer_type());
}

TEST(EveryKindOfOperationHasASample) {
  const std::vector<KernelSample> samples = Samples();
  EXPECT_EQ(samples.size(), 8U);
  for (const KernelSample& sample : samples) {
    double magnitude = 0;
    for (const float value : sample.values) magnitude += std::abs(static_cast<double>(value));
    EXPECT(magnitude > 1);
  }
}

TEST(RoundingIsNoDifference) {
  const std::vector<KernelSample> expected = Samples();
  std::vector<KernelSample> actual = expected;
  for (KernelSample& sample : actual) {
    for (float& value : sample.values) value *= 1.005F;
  }
  EXPECT(FirstDifference(expected, actual) == nullptr);
}

TEST(WrongValuesAndMissingOnesAreDifferences) {
  const std::vector<KernelSample> expected = Samples();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<KernelSample> actual = expected;
    std::vector<float>& values = actual[i].values;
    values.front() += 10;
    EXPECT_EQ(std::string(FirstDifference(expected, actual)), expected[i].operation);
    values = expected[i].values;
    values[1] = NAN;
    EXPECT_EQ(std::string(FirstDifference(expected, actual)), expected[i].operation);
  }
  EXPECT(FirstDifference(expected, {}) != nullptr);
  EXPECT(FirstDifference({}, {}) != nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
