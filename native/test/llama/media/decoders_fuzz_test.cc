// Fuzzes the decoders of pictures and sounds: small valid files of every format, damaged at random.
// A decoder must return a picture or sound within its limits, or a reason. Run with sanitizers,
// this finds what reads or writes where it must not. `npm run fuzz` (test/fuzz/decoders/) chooses
// the cases with variables of the environment, all optional:
//
//   SVC_FUZZ_SEED, SVC_FUZZ_FROM, SVC_FUZZ_CASES    the cases; each has the same bytes everywhere
//   SVC_FUZZ_BLOCK                                  number of cases after which a line is printed
//   SVC_FUZZ_OUT                                    a file for the bytes of the last case
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/base64.h"
#include "engine/llama/media/media_limits.h"
#include "engine/llama/media/picture.h"
#include "engine/llama/media/sound.h"
#include "media_files.h"
#include "media_samples.h"
#include "test.h"

namespace svc {
namespace {

using test::Bytes;

constexpr std::uint32_t kCases = 20'000;
constexpr std::uint32_t kSampleRate = 16'000;

// The first frames of llama.cpp's sample.
Bytes Mp3() {
  constexpr std::size_t kLength = 4000;
  std::ifstream file(std::string(SVC_LLAMA_SOURCE_DIR) + "/tools/mtmd/test-2.mp3",
                     std::ios::binary);
  Bytes bytes(kLength);
  file.read(reinterpret_cast<char*>(bytes.data()), kLength);
  EXPECT(file.good());
  return bytes;
}

std::vector<Bytes> Pictures() {
  std::vector<Bytes> seeds = {test::SomePng(12, 9, 1)};
  for (const std::string_view text : {test::kJpeg, test::kProgressiveJpeg, test::kGif,
                                      test::kPngWithAlpha, test::kPngWithPalette}) {
    seeds.push_back(DecodeBase64(text).value());
  }
  return seeds;
}

std::vector<Bytes> Sounds() {
  return {test::Wav(kSampleRate, 200, 440), test::Wav(8000, 200, 440),
          DecodeBase64(test::kFlac).value(), Mp3()};
}

class Damage {
 public:
  Damage(std::uint32_t seed, std::uint32_t index) : random_(seed * 1'000'003U + index) {}

  Bytes Of(const std::vector<Bytes>& seeds) {
    Bytes bytes = seeds[Below(seeds.size())];
    const std::size_t times = 1 + Below(8);
    for (std::size_t i = 0; i < times && bytes.size() > 4; ++i) Once(&bytes);
    return bytes;
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  void Once(Bytes* bytes) {
    constexpr std::array<std::uint8_t, 8> kEdges = {0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, 0x10};
    const std::size_t at = Below(bytes->size());
    const auto place = bytes->begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(1 + Below(6), bytes->size() - at);
    switch (Below(6)) {
      case 0:
        (*bytes)[at] ^= static_cast<std::uint8_t>(1U << Below(8));
        break;
      case 1:
        (*bytes)[at] = kEdges[Below(kEdges.size())];
        break;
      case 2:  // a length or a size
        std::fill_n(place, length, kEdges[Below(kEdges.size())]);
        break;
      case 3:
        bytes->resize(at + 1);
        break;
      case 4:
        bytes->erase(place, place + static_cast<std::ptrdiff_t>(length));
        break;
      default: {
        const Bytes piece(place, place + static_cast<std::ptrdiff_t>(length));
        bytes->insert(bytes->begin() + static_cast<std::ptrdiff_t>(Below(bytes->size())),
                      piece.begin(), piece.end());
      }
    }
  }

  std::mt19937 random_;
};

std::uint32_t Setting(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

// `decode` returns true if it could read the bytes.
template <typename Decode>
void RunCases(const std::vector<Bytes>& seeds, Decode decode) {
  const std::uint32_t seed = Setting("SVC_FUZZ_SEED", 1);
  const std::uint32_t from = Setting("SVC_FUZZ_FROM", 0);
  const std::uint32_t end = from + Setting("SVC_FUZZ_CASES", kCases);
  const std::uint32_t block = Setting("SVC_FUZZ_BLOCK", 0);
  std::uint32_t read = 0;
  std::clock_t slowest = 0;  // CPU time
  for (std::uint32_t i = from; i < end; ++i) {
    const Bytes bytes = Damage(seed, i).Of(seeds);
    if (const char* out = std::getenv("SVC_FUZZ_OUT"); out != nullptr) {
      std::ofstream(out, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
    const int failures = test::Failures();
    const std::clock_t started = std::clock();
    read += decode(bytes) ? 1 : 0;
    slowest = std::max(slowest, std::clock() - started);
    if (test::Failures() > failures) std::fprintf(stderr, "case %u\n", i);
    if (block == 0 || (i + 1 - from) % block != 0) continue;
    std::printf("done %u read %u slowest_ms %.1f\n", i + 1, read,
                1000.0 * static_cast<double>(slowest) / CLOCKS_PER_SEC);
    std::fflush(stdout);
  }
}

TEST(DamagedPictures) {
  const std::vector<Bytes> seeds = Pictures();
  for (const Bytes& seed : seeds) EXPECT(DecodePicture(seed).ok());
  RunCases(seeds, [](const Bytes& bytes) {
    const Result<Picture> picture = DecodePicture(bytes);
    if (!picture.ok()) {
      EXPECT(!picture.status().message().empty());
      return false;
    }
    const auto& [width, height, pixels] = picture.value();
    EXPECT(width <= kMaxSide && height <= kMaxSide);
    EXPECT_EQ(pixels.size(), std::size_t{width} * height * 3);
    return true;
  });
}

TEST(DamagedSounds) {
  const std::vector<Bytes> seeds = Sounds();
  // All but the last, which ends early.
  for (std::size_t i = 0; i + 1 < seeds.size(); ++i)
    EXPECT(DecodeSound(seeds[i], kSampleRate).ok());
  // In this case of seed 1 the prediction of a FLAC overflows.
  constexpr std::uint32_t kOverflow = 189'143;
  EXPECT(!DecodeSound(Damage(1, kOverflow).Of(seeds), kSampleRate).ok());
  RunCases(seeds, [](const Bytes& bytes) {
    const Result<std::vector<float>> sound = DecodeSound(bytes, kSampleRate);
    EXPECT(sound.ok() ? sound.value().size() <= std::size_t{kMaxSeconds} * kSampleRate
                      : !sound.status().message().empty());
    return sound.ok();
  });
}

}  // namespace
}  // namespace svc

TEST_MAIN()
