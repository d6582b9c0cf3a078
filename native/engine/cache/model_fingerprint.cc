#include "engine/cache/model_fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "engine/base/xxhash64.h"

namespace svc {
namespace {

constexpr std::uint64_t kSamples = 256;
constexpr std::uint64_t kSampleBytes = 4096;

}  // namespace

Fingerprint FingerprintOf(const std::string& path, const std::string& version) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  // Nanoseconds, in 128 bits on macOS.
  const auto changed_at = static_cast<std::int64_t>(
      std::filesystem::last_write_time(path, error).time_since_epoch().count());
  const std::string text =
      version + "\n" + std::to_string(size) + "\n" + std::to_string(changed_at);
  std::uint64_t hash = XxHash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> sample(kSampleBytes);
  // Samples are spread from the first byte to the last, whatever the file's size.
  const std::uint64_t last = size - std::min(size, kSampleBytes);
  for (std::uint64_t i = 0; i < kSamples && file; ++i) {
    file.seekg(static_cast<std::streamoff>(last / (kSamples - 1) * i +
                                           last % (kSamples - 1) * i / (kSamples - 1)));
    file.read(reinterpret_cast<char*>(sample.data()), static_cast<std::streamsize>(sample.size()));
    hash = XxHash64({sample.data(), static_cast<std::size_t>(file.gcount())}, hash);
    if (size < kSampleBytes) break;
  }
  return hash;
}

}  // namespace svc
