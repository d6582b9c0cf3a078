// Which kernels a processor gets, compared with the flags that the kernel of the system lists.
#include "kernels/kernels.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test.h"

namespace svc {
namespace {

// Flags of the first processor in /proc/cpuinfo.
std::set<std::string> FlagsOfTheProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(flags), {}};
  }
  return {};
}

TEST(AProcessorGetsTheKernelsOfItsInstructions) {
  const std::set<std::string> flags = FlagsOfTheProcessor();
  REQUIRE(!flags.empty());
  const auto has = [&](const std::vector<std::string>& wanted) {
    return std::ranges::all_of(wanted,
                               [&](const std::string& each) { return flags.contains(each); });
  };
  std::vector<std::string> expected;
  if (has({"avx2", "fma", "f16c"})) {
    if (has({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"})) {
      expected.emplace_back("AVX512_VNNI");
    }
    expected.emplace_back("AVX2");
  }
  std::vector<std::string> supported;
  for (const Kernels& kernels : SupportedKernels()) supported.emplace_back(kernels.instructions);
  EXPECT(supported == expected);
}

TEST(TheKernelsOfAnInstructionSetGoTogether) {
  for (const Kernels& kernels : SupportedKernels()) {
    const bool is_wide = std::string(kernels.instructions) == "AVX512_VNNI";
    EXPECT(kernels.multiply == (is_wide ? MultiplyAvx512 : MultiplyAvx2));
    EXPECT(kernels.multiply_halves == (is_wide ? MultiplyHalvesAvx512 : MultiplyHalvesAvx2));
    EXPECT(kernels.attend == (is_wide ? AttendAvx512 : AttendAvx2));
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
