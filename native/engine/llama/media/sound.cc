// miniaudio reads untrusted bytes. The length that a header declares is checked before samples are
// decoded, and only samples that are really there take memory.
#include "engine/llama/media/sound.h"

#include <algorithm>
#include <string>

#include "engine/llama/media/bytes_at.h"
#include "engine/llama/media/media_limits.h"

#define MINIAUDIO_IMPLEMENTATION
#define MA_API static
#define MA_NO_DEVICE_IO
#define MA_NO_ENCODING
#define MA_NO_ENGINE
#define MA_NO_GENERATION
#define MA_NO_NODE_GRAPH
#define MA_NO_RESOURCE_MANAGER
#include "miniaudio/miniaudio.h"

namespace svc {
namespace {

constexpr std::size_t kSamplesAtOnce = std::size_t{1} << 16U;
// A resampled sound may lack this part of its last second; what lacks more was cut off.
constexpr ma_uint64 kRoundedPart = 10;

Status Refuse(const std::string& why) { return {StatusCode::kInvalidRequest, why}; }

bool IsKnown(std::span<const std::uint8_t> bytes) {
  const bool is_wav = HasAt(bytes, 0, "RIFF") && HasAt(bytes, 8, "WAVE");
  const bool is_mp3 = HasAt(bytes, 0, "ID3") ||
                      (bytes.size() > 1 && bytes[0] == 0xFF && (bytes[1] & 0xE0U) == 0xE0);
  return is_wav || is_mp3 || HasAt(bytes, 0, "fLaC");
}

// Reads all samples.
Result<std::vector<float>> ReadAll(ma_decoder* decoder, std::uint32_t sample_rate) {
  const Status too_long = Refuse("is longer than " + std::to_string(kMaxSeconds) + " seconds");
  ma_uint64 length = 0;
  if (ma_decoder_get_length_in_pcm_frames(decoder, &length) != MA_SUCCESS) {
    return Refuse("is damaged or cut off");
  }
  if (length > ma_uint64{kMaxSeconds} * sample_rate) return too_long;
  std::vector<float> samples;
  while (samples.size() < length) {
    const std::size_t wanted = std::min<std::size_t>(kSamplesAtOnce, length - samples.size());
    const std::size_t before = samples.size();
    samples.resize(before + wanted);
    ma_uint64 read = 0;
    const ma_result result =
        ma_decoder_read_pcm_frames(decoder, samples.data() + before, wanted, &read);
    samples.resize(before + read);
    if (result == MA_AT_END || read == 0) break;
    if (result != MA_SUCCESS) return Refuse("is damaged or cut off");
  }
  if (samples.empty()) return Refuse("has no samples");
  if (length - samples.size() > sample_rate / kRoundedPart) return Refuse("is cut off");
  samples.resize(length);  // as llama.cpp's programs do
  return samples;
}

}  // namespace

Result<std::vector<float>> DecodeSound(std::span<const std::uint8_t> bytes,
                                       std::uint32_t sample_rate) {
  if (bytes.size() > kMaxMediaBytes) {
    return Refuse("has more than " + std::to_string(kMaxMediaBytes) + " bytes");
  }
  if (!IsKnown(bytes)) return Refuse("is not a WAV, MP3 or FLAC");
  const ma_decoder_config config =
      ma_decoder_config_init(ma_format_f32, /*channels=*/1, sample_rate);
  ma_decoder decoder;
  if (ma_decoder_init_memory(bytes.data(), bytes.size(), &config, &decoder) != MA_SUCCESS) {
    return Refuse("is damaged or cut off");
  }
  Result<std::vector<float>> samples = ReadAll(&decoder, sample_rate);
  ma_decoder_uninit(&decoder);
  return samples;
}

}  // namespace svc
