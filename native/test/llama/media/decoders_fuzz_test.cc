// Fuzzes the decoders of pictures and sounds: small valid files of every format, damaged at random.
// A decoder must return a picture or sound within its limits, or a reason. Run with sanitizers,
// this finds what reads or writes where it must not.
//
//   SVC_FUZZ_CASES=1000000 decoders_fuzz_test      more cases than in a test
#include <algorithm>
#include <array>
#include <cstdlib>
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
#include "test.h"

namespace svc {
namespace {

using test::Bytes;

constexpr std::uint32_t kCases = 20'000;
constexpr std::uint32_t kSampleRate = 16'000;

// Made for this test: a gradient, and a ramp.
constexpr std::string_view kJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVk"
    "VGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8"
    "fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAAQABgDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABQAD/8"
    "QAFxAAAwEAAAAAAAAAAAAAAAAAAAIEYf/EABUBAQEAAAAAAAAAAAAAAAAAAAUD/8QAGBEAAwEBAAAAAAAAAAAAAAAA"
    "AAMEIQL/2gAMAwEAAhEDEQA/ABklw3SXBVJcNklwXdQSncFpLhDaS4QV3Ro0t2H/2Q==";
constexpr std::string_view kProgressiveJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVk"
    "VGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8"
    "fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wgARCAAMABQDASIAAhEBAxEB/8QAFwABAQEBAAAAAAAAAAAAAAAABAACA/"
    "/EABUBAQEAAAAAAAAAAAAAAAAAAAQC/9oADAMBAAIQAxAAAAEXRG2SeXHV/8QAFhABAQEAAAAAAAAAAAAAAAAAABES"
    "/9oACAEBAAEFAsssoiP/xAAXEQEAAwAAAAAAAAAAAAAAAAAAAgMS/9oACAEDAQE/Aa5NP//EABYRAQEBAAAAAAAAAA"
    "AAAAAAAAACEv/aAAgBAgEBPwG7bf/EABQQAQAAAAAAAAAAAAAAAAAAACD/2gAIAQEABj8CX//EABcQAQEBAQAAAAAA"
    "AAAAAAAAAAEAEBH/2gAIAQEAAT8hKZggXF//2gAMAwEAAgADAAAAEJjf/8QAFhEBAQEAAAAAAAAAAAAAAAAAAQAR/9"
    "oACAEDAQE/EFh5f//EABURAQEAAAAAAAAAAAAAAAAAAAEA/9oACAECAQE/EElX/8QAGhAAAQUBAAAAAAAAAAAAAAAA"
    "AAERMVFhIf/aAAgBAQABPxDIyE4gqFQRiD//2Q==";
constexpr std::string_view kGif =
    "R0lGODdhEAAKAIIAAH1px3hCxTRh7y867G0hx2kHxiQZ7iAA7iwAAAAAEAAKAAAIRwAPCBwosIDBgwYJGlhoACFChh"
    "ANEJhIcWLEARgrUgxgAKPHjBMDiBT58ePIkwE8Cli5EuVIljAFAJhJc2ZMljVr3pSZk2ZAADs=";
constexpr std::string_view kPngWithAlpha =
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAKCAYAAAC9vt6cAAAAJElEQVR42mNkYPjPwMnwW45czMLMy8DAzEA+HjVg1A"
    "BmBgYGAA8wFEjKtkaZAAAAAElFTkSuQmCC";
constexpr std::string_view kPngWithPalette =
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAKBAMAAABPkMOvAAAAGFBMVEV9acd4QsU0Ye8vOuxtIcdpB8YkGe4gAO7cfG"
    "BqAAAAOUlEQVR42mXKIRKAMAwAwSXkz7ySmSokuq58IBRRyakVtx24kQyQw2JQJyqroZo9cHXSfH7zKvDCB0/sES15"
    "pz+rAAAAAElFTkSuQmCC";
constexpr std::string_view kFlac =
    "ZkxhQ4AAACIAwADAAAAAAAAAA+gA8AAAAYAAAAAAAAAAAAAAAAAAAAAA//gVCABAAu5s7vXvfvAH8JDxGfGi8ivytP"
    "M988b0T/TY9WH16vZz9vz3hfgO+Jf5IPmp+jL6u/tE+838Vvzf/Wj98f56/wP/jAAVAJ4BJwGwAjkCwgNLA9QEXQTm"
    "BW8F+AaBBwoHkwgcCKUJLgm3CkAKyQtSC9sMZAztDXYN/w6IDxEPmhAjEKwRNe6W7x/vqPAx8LrxQ/HM8lXy3vNn8/"
    "D0efUC9Yv2FPad9yb3r/g4+MH5SvnT+lz65ftu+/f8gP0J/ZL+G/6k/y3/tgA/AMgBUQHaAmMC7AN1A/4EhwUQBZkG"
    "IgarBzQHvQhGCM8JWAnhCmoK8wt8DAUMjg0XDaAOKQ6yDzsPxBBNENYRX+7A70nv0vBb8OTxbfH28n/zCPOR9Br0o/"
    "Us9bX2PvbH91D32fhi+Ov5dPn9+ob7D/uY/CH8qv0z/bz+Rf7O/1f/4ABpAPIBewIEAo0DFgOfBCgEsQU6BcMGTAbV"
    "B14H5whwCPkJggoLCpQLHQumDC8MuA1BDcoOU+0Q//gVCAFHAu5s7vXvfvAH8JDxGfGi8ivytPM988b0T/TY9WH16v"
    "Zz9vz3hfgO+Jf5IPmp+jL6u/tE+838Vvzf/Wj98f56/wP/jAAVAJ4BJwGwAjkCwgNLA9QEXQTmBW8F+AaBBwoHkwgc"
    "CKUJLgm3CkAKyQtSC9sMZAztDXYN/w6IDxEPmhAjEKwRNe6W7x/vqPAx8LrxQ/HM8lXy3vNn8/D0efUC9Yv2FPad9y"
    "b3r/g4+MH5SvnT+lz65ftu+/f8gP0J/ZL+G/6k/y3/tgA/AMgBUQHaAmMC7AN1A/4EhwUQBZkGIgarBzQHvQhGCM8J"
    "WAnhCmoK8wt8DAUMjg0XDaAOKQ6yDzsPxBBNENYRX+7A70nv0vBb8OTxbfH28n/zCPOR9Br0o/Us9bX2PvbH91D32f"
    "hi+Ov5dPn9+ob7D/uY/CH8qv0z/bz+Rf7O/1f/4ABpAPIBewIEAo0DFgOfBCgEsQU6BcMGTAbVB14H5whwCPkJggoL"
    "CpQLHQumDC8MuA1BDcoOU7W7";

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
  for (const std::string_view text :
       {kJpeg, kProgressiveJpeg, kGif, kPngWithAlpha, kPngWithPalette}) {
    seeds.push_back(DecodeBase64(text).value());
  }
  return seeds;
}

std::vector<Bytes> Sounds() {
  return {test::Wav(kSampleRate, 200, 440), test::Wav(8000, 200, 440), DecodeBase64(kFlac).value(),
          Mp3()};
}

class Damage {
 public:
  explicit Damage(std::uint32_t seed) : random_(seed) {}

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

std::uint32_t Cases() {
  const char* asked = std::getenv("SVC_FUZZ_CASES");
  return asked == nullptr ? kCases : static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10));
}

TEST(DamagedPictures) {
  const std::vector<Bytes> seeds = Pictures();
  for (const Bytes& seed : seeds) EXPECT(DecodePicture(seed).ok());
  Damage damage(1);
  for (std::uint32_t i = 0; i < Cases(); ++i) {
    const Result<Picture> picture = DecodePicture(damage.Of(seeds));
    if (!picture.ok()) {
      EXPECT(!picture.status().message().empty());
      continue;
    }
    const auto& [width, height, pixels] = picture.value();
    EXPECT(width <= kMaxSide && height <= kMaxSide);
    EXPECT_EQ(pixels.size(), std::size_t{width} * height * 3);
  }
}

TEST(DamagedSounds) {
  const std::vector<Bytes> seeds = Sounds();
  // All but the last, which ends early.
  for (std::size_t i = 0; i + 1 < seeds.size(); ++i)
    EXPECT(DecodeSound(seeds[i], kSampleRate).ok());
  Damage damage(2);
  for (std::uint32_t i = 0; i < Cases(); ++i) {
    const Result<std::vector<float>> sound = DecodeSound(damage.Of(seeds), kSampleRate);
    EXPECT(sound.ok() ? sound.value().size() <= std::size_t{kMaxSeconds} * kSampleRate
                      : !sound.status().message().empty());
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
