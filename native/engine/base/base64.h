// Base64 (RFC 4648, section 4), as pictures and sounds come in requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace svc {

// Bytes that `text` encodes. Absent: it is not base64. The padding at the end may be missing.
std::optional<std::vector<std::uint8_t>> DecodeBase64(std::string_view text);

}  // namespace svc
