// stb_image reads untrusted bytes. What bounds it here:
//   * only the three formats that requests may have are compiled in;
//   * size and shape are read from the header and checked before anything is decoded;
//   * a budget for its allocations, in proportion to the pixels: compressed data that unpacks to
//     more than its header declares fails instead of filling the memory;
//   * the number of scans of a JPEG, each of which visits every pixel.
#include "engine/llama/media/picture.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/llama/media/bytes_at.h"
#include "engine/llama/media/media_limits.h"

namespace {

// Bytes that stb_image may still allocate on this thread.
thread_local std::size_t budget = 0;

void* AllocateWithin(std::size_t size) {
  if (size > budget) return nullptr;
  budget -= size;
  return std::malloc(size);
}

// What is freed is not counted back: its sizes are not known.
void* ReallocateWithin(void* old, std::size_t size) {
  if (size > budget) return nullptr;
  budget -= size;
  return std::realloc(old, size);
}

}  // namespace

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STBI_MALLOC(size) AllocateWithin(size)
#define STBI_REALLOC(old, size) ReallocateWithin(old, size)
#define STBI_FREE(old) std::free(old)
#include "stb/stb_image.h"

namespace svc {
namespace {

// Allocation budget per pixel over all decoding steps. Worst cases: 16-bit PNG, progressive JPEG.
constexpr std::size_t kBytesPerPixel = 40;
constexpr std::size_t kFixedBytes = std::size_t{4} << 20U;
constexpr std::size_t kMostScans = 100;

Status Refuse(const std::string& why) { return {StatusCode::kInvalidRequest, why}; }

// Number of scans of a JPEG. In compressed data the marker does not occur.
std::size_t CountScans(std::span<const std::uint8_t> bytes) {
  std::size_t scans = 0;
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (bytes[i - 1] == 0xFF && bytes[i] == 0xDA) ++scans;
  }
  return scans;
}

Status CheckFormat(std::span<const std::uint8_t> bytes) {
  using namespace std::string_view_literals;
  if (bytes.size() > kMaxMediaBytes) {
    return Refuse("has more than " + std::to_string(kMaxMediaBytes) + " bytes");
  }
  if (HasAt(bytes, 0, "\xFF\xD8\xFF"sv)) {
    return CountScans(bytes) > kMostScans ? Refuse("is a JPEG with too many scans") : Status::Ok();
  }
  if (HasAt(bytes, 0, "\x89PNG\r\n\x1A\n"sv) || HasAt(bytes, 0, "GIF87a"sv) ||
      HasAt(bytes, 0, "GIF89a"sv)) {
    return Status::Ok();
  }
  if (bytes.size() > 12 && HasAt(bytes, 8, "WEBP"sv))
    return Refuse("is WebP, which local models cannot read");
  return Refuse("is not a PNG, JPEG or GIF");
}

Status CheckShape(int width, int height) {
  const std::string shape = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) return Refuse("has no pixels");
  if (width > kMaxSide || height > kMaxSide) {
    return Refuse("has a side of more than " + std::to_string(kMaxSide) + " pixels");
  }
  if (static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) > kMaxPixels) {
    return Refuse("has " + shape + "; " + std::to_string(kMaxPixels) + " are allowed");
  }
  if (std::max(width, height) > kMaxSidesRatio * std::min(width, height)) {
    return Refuse("has " + shape + "; one side may be " + std::to_string(kMaxSidesRatio) +
                  " times as long as the other");
  }
  return Status::Ok();
}

// stb_image refuses the largest PNGs without a reason.
Status CheckPngHeader(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kSizeAt = 16;
  if (bytes.size() < kSizeAt + 8 || bytes[0] != 0x89) return Status::Ok();
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8U | bytes[at + i];
    return static_cast<int>(std::min<std::uint32_t>(value, kMaxSide + 1));
  };
  return CheckShape(number(kSizeAt), number(kSizeAt + 4));
}

}  // namespace

Result<Picture> DecodePicture(std::span<const std::uint8_t> bytes) {
  SVC_RETURN_IF_ERROR(CheckFormat(bytes));
  const auto size = static_cast<int>(bytes.size());
  int width = 0;
  int height = 0;
  int channels = 0;
  SVC_RETURN_IF_ERROR(CheckPngHeader(bytes));
  budget = kFixedBytes;
  if (stbi_info_from_memory(bytes.data(), size, &width, &height, &channels) == 0) {
    return Refuse("is damaged or cut off");
  }
  SVC_RETURN_IF_ERROR(CheckShape(width, height));
  const std::size_t pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  budget = kFixedBytes + kBytesPerPixel * pixels;
  int found_width = 0;
  int found_height = 0;
  stbi_uc* const decoded =
      stbi_load_from_memory(bytes.data(), size, &found_width, &found_height, &channels, STBI_rgb);
  if (decoded == nullptr) return Refuse("is damaged or cut off");
  Picture picture;
  const bool same = found_width == width && found_height == height;
  if (same) {
    picture.width = static_cast<std::uint32_t>(width);
    picture.height = static_cast<std::uint32_t>(height);
    picture.pixels.assign(decoded, decoded + pixels * STBI_rgb);
  }
  stbi_image_free(decoded);
  if (!same) return Refuse("is damaged or cut off");
  return picture;
}

}  // namespace svc
