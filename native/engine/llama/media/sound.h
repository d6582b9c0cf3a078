// Decodes sounds: WAV, MP3 and FLAC, with miniaudio from llama.cpp's source, so that the samples
// are those that llama.cpp's own programs hear.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"

namespace svc {

// Samples of one channel at `sample_rate`, from -1 to 1. Errors: kInvalidRequest, in words that
// follow "the sound" (no decodable format, too long, cut off). Any thread.
Result<std::vector<float>> DecodeSound(std::span<const std::uint8_t> bytes,
                                       std::uint32_t sample_rate);

}  // namespace svc
