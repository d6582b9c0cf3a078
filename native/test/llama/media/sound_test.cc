// Sounds: the samples of each format, and files that are refused before they are decoded.
#include "engine/llama/media/sound.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/base64.h"
#include "engine/llama/media/media_limits.h"
#include "media_files.h"
#include "media_samples.h"
#include "test.h"

namespace svc {
namespace {

using test::Bytes;
using test::SomePng;
using test::Wav;

constexpr std::uint32_t kRate = 16'000;

std::string WhyNoSound(const Bytes& bytes) { return DecodeSound(bytes, kRate).status().message(); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Overwrites a number of `count` bytes, the smallest first.
void Set(Bytes* bytes, std::size_t at, std::uint32_t value, int count) {
  Bytes number;
  test::AddLittle(&number, value, count);
  std::ranges::copy(number, bytes->begin() + static_cast<std::ptrdiff_t>(at));
}

constexpr std::size_t kFormatAt = 20;  // of a WAV: 1 is PCM
constexpr std::size_t kChannelsAt = 22;
constexpr std::size_t kRateAt = 24;
constexpr std::size_t kFrameBytesAt = 32;
constexpr std::size_t kBitsAt = 34;
constexpr std::size_t kDataBytesAt = 40;

TEST(ASoundHasItsSamples) {
  const Result<std::vector<float>> sound = DecodeSound(Wav(kRate, kRate, 100), kRate);
  EXPECT(sound.ok());
  if (!sound.ok()) return;
  EXPECT_EQ(sound.value().size(), kRate);
  const auto [least, most] = std::ranges::minmax(sound.value());
  EXPECT(most > 0.6F && most < 0.62F && least < -0.6F);
  // Resampled.
  const Result<std::vector<float>> slow = DecodeSound(Wav(8000, 8000, 100), kRate);
  EXPECT(slow.ok() && slow.value().size() > 15990 && slow.value().size() < 16010);
}

TEST(SoundsThatAreRefused) {
  EXPECT(Has(WhyNoSound({'O', 'g', 'g', 'S'}), "not a WAV, MP3 or FLAC"));
  EXPECT(Has(WhyNoSound(SomePng(4, 4, 0)), "not a WAV, MP3 or FLAC"));
  EXPECT(Has(WhyNoSound(Wav(100, 61000, 1)), "longer than 600 seconds"));
  Bytes cut = Wav(kRate, kRate, 100);
  cut.resize(30);
  EXPECT(!DecodeSound(cut, kRate).ok());
  EXPECT(Has(WhyNoSound(Wav(kRate, 0, 100)), "no samples"));
}

TEST(EveryFormatIsDecodedToOneChannel) {
  const Result<std::vector<float>> flac = DecodeSound(DecodeBase64(test::kFlac).value(), kRate);
  REQUIRE(flac.ok());
  // A ramp, recorded at 16 kHz.
  EXPECT_EQ(flac.value().size(), 384U);
  for (const float sample : flac.value()) EXPECT(std::fabs(sample) <= 1);
  std::ifstream file(std::string(SVC_LLAMA_SOURCE_DIR) + "/tools/mtmd/test-2.mp3",
                     std::ios::binary);
  const Bytes mp3((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(!mp3.empty());
  const Result<std::vector<float>> sound = DecodeSound(mp3, kRate);
  REQUIRE(sound.ok());
  EXPECT(sound.value().size() > kRate);
  const auto [least, most] = std::ranges::minmax(sound.value());
  EXPECT(most > 0.1F && least < -0.1F && most <= 1.5F && least >= -1.5F);
}

TEST(TheChannelsOfASoundAreMixed) {
  Bytes wav = Wav(kRate, 400, 0);
  Set(&wav, kChannelsAt, 2, 2);
  Set(&wav, kRateAt + 4, kRate * 4, 4);
  Set(&wav, kFrameBytesAt, 4, 2);
  for (std::size_t i = 0; i < 400; i += 2) {
    Set(&wav, kDataBytesAt + 4 + i * 2, 16'384, 2);
    Set(&wav, kDataBytesAt + 6 + i * 2, static_cast<std::uint32_t>(-8'192), 2);
  }
  const Result<std::vector<float>> sound = DecodeSound(wav, kRate);
  REQUIRE(sound.ok());
  REQUIRE(sound.value().size() == 200);
  for (const float sample : sound.value()) EXPECT(std::fabs(sample - 0.125F) < 1e-3F);
}

TEST(TheLimitIsOfSecondsWhateverTheRate) {
  // At 10 Hz, few bytes are many seconds.
  const auto why = [](std::uint32_t seconds, std::uint32_t rate) {
    return DecodeSound(Wav(10, seconds * 10, 1), rate).status().message();
  };
  for (const std::uint32_t rate : {8'000U, 16'000U, 24'000U}) {
    EXPECT_EQ(why(kMaxSeconds - 1, rate), "");
    EXPECT_EQ(why(kMaxSeconds + 1, rate),
              "is longer than " + std::to_string(kMaxSeconds) + " seconds");
  }
}

// As a program writes it that does not know the length yet.
TEST(OfALengthThatOnlyTheHeaderHasNothingIsMade) {
  for (const std::uint32_t bytes : {4'001U, 24'000U, 0x7FFFFFF0U, 0xFFFFFFFFU}) {
    Bytes wav = Wav(kRate, 2'000, 100);
    Set(&wav, kDataBytesAt, bytes, 4);
    const Result<std::vector<float>> sound = DecodeSound(wav, kRate);
    REQUIRE(sound.ok());
    EXPECT(sound.value() == DecodeSound(Wav(kRate, 2'000, 100), kRate).value());
  }
}

TEST(AFileOfTheLargestSizeIsLookedAt) {
  Bytes wav = Wav(kRate, 2'000, 100);
  wav.resize(kMaxMediaBytes);
  EXPECT_EQ(DecodeSound(wav, kRate).value().size(), 2'000U);
  wav.push_back(0);
  EXPECT_EQ(WhyNoSound(wav), "has more than " + std::to_string(kMaxMediaBytes) + " bytes");
}

TEST(FilesThatOnlyBeginLikeASound) {
  for (const char* begins :
       {"RIFF....WAVE", "RIFF....WAVEfmt ", "ID3", "fLaC", "\xFF\xFB", "\xFF\xE0"}) {
    const std::string text = std::string(begins) + std::string(100, 'x');
    for (const std::size_t size : {std::string(begins).size(), text.size()}) {
      const Bytes bytes(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
      const std::string why = WhyNoSound(bytes);
      EXPECT(Has(why, "damaged") || Has(why, "no samples") || Has(why, "cut off"));
    }
  }
  for (const char* other : {"", "R", "RIFF", "RIFF....AVI ", "ID", "fLa", "\xFF", "\xFF\xDF"}) {
    const std::string text = other;
    EXPECT_EQ(WhyNoSound(Bytes(text.begin(), text.end())), "is not a WAV, MP3 or FLAC");
  }
}

TEST(HeadersWithNumbersThatNoSoundHas) {
  for (const std::size_t at : {kFormatAt, kChannelsAt, kRateAt, kFrameBytesAt, kBitsAt}) {
    for (const std::uint32_t value : {0U, 0xFFFFU}) {
      Bytes wav = Wav(kRate, 2'000, 100);
      Set(&wav, at, value, 2);
      const Result<std::vector<float>> sound = DecodeSound(wav, kRate);
      EXPECT(sound.ok() ? sound.value().size() <= std::size_t{kMaxSeconds} * kRate
                        : sound.status().code() == StatusCode::kInvalidRequest);
    }
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
