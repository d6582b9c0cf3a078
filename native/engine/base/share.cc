#include "engine/base/share.h"

#include <algorithm>

namespace svc {

ShareId ShareIdOf(const SipKey& key, const std::string& name) {
  if (name.empty()) return 0;
  return std::max<ShareId>(1, DeriveKey(DeriveKey(key, "share"), name)[0]);
}

}  // namespace svc
