#include "engine/model/media_rows.h"

#include <array>

namespace svc {

std::vector<Token> MediaTokens(const SipTag& digest, std::uint32_t count) {
  constexpr std::uint32_t kNegative = 1U << 31U;
  constexpr std::uint32_t kBits = kFirstRow - 1;
  std::vector<Token> tokens(count);
  for (std::uint32_t row = 0; row < count; ++row) {
    const std::array<std::uint8_t, 4> bytes = {
        static_cast<std::uint8_t>(row), static_cast<std::uint8_t>(row >> 8U),
        static_cast<std::uint8_t>(row >> 16U), static_cast<std::uint8_t>(row >> 24U)};
    const auto hash = static_cast<std::uint32_t>(SipHash128(digest, bytes)[0]);
    tokens[row] = static_cast<Token>(kNegative | (row == 0 ? kFirstRow : 0) | (hash & kBits));
  }
  return tokens;
}

}  // namespace svc
