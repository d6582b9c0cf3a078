#include "engine/base/share.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace svc {

ShareId ShareIdOf(const SipKey& key, const std::string& name) {
  if (name.empty()) return 0;
  return std::max<ShareId>(1, DeriveKey(DeriveKey(key, "share"), name)[0]);
}

ShareId SaltWith(const SipKey& key, ShareId salt, std::vector<ScopedAdapter> adapters) {
  if (adapters.empty()) return salt;
  std::ranges::sort(adapters, {}, [](const ScopedAdapter& each) {
    return std::pair(each.fingerprint, std::bit_cast<std::uint32_t>(each.scale));
  });
  std::string text = std::to_string(salt);
  for (const auto& [fingerprint, scale] : adapters) {
    text += ' ' + std::to_string(fingerprint) + '*' +
            std::to_string(std::bit_cast<std::uint32_t>(scale));
  }
  return std::max<ShareId>(1, DeriveKey(DeriveKey(key, "adapters"), text)[0]);
}

}  // namespace svc
