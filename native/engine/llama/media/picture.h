// Decodes pictures: PNG, JPEG, and the first frame of a GIF, with stb_image from llama.cpp's
// source, so that the pixels are those that llama.cpp's own programs see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"

namespace svc {

struct Picture {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> pixels;  // red, green, blue; row by row from the top
};

// Errors: kInvalidRequest, in words that follow "the picture" (no decodable format, too large, cut
// off). Any thread. Takes memory in proportion to the pixels that the header declares.
Result<Picture> DecodePicture(std::span<const std::uint8_t> bytes);

}  // namespace svc
