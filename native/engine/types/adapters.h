// LoRA adapters: small corrections of a model's weights, each in a file of its own. A model is
// loaded with some, and a request may use several at once, each with a scale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/field.h"

namespace svc {

// An adapter to load with a model.
struct AdapterFile {
  std::string id;    // unique in the load
  std::string path;  // of a GGUF file

  SVC_FIELDS(AdapterFile, (id, .required = true, .non_empty = true),
             (path, .required = true, .non_empty = true))
};

// Result of loading an adapter.
struct AdapterInfo {
  std::string id;
  std::string error;  // why it cannot be used, worded to follow "the adapter X"; empty: it can

  SVC_FIELDS(AdapterInfo, (id), (error))
};

// An adapter that a request names.
struct AdapterWish {
  std::string id;
  float scale = 0;  // factor of its correction; 0: as if it were not asked for

  SVC_FIELDS(AdapterWish, (id, .required = true), (scale, .required = true))
};

// An adapter in use.
struct AdapterUse {
  std::uint32_t index = 0;  // into the adapters of the load
  float scale = 0;          // finite, not 0

  friend bool operator==(const AdapterUse&, const AdapterUse&) = default;
};

// The adapters that compute together: each at most once, ordered by index. Empty: the model itself.
using AdapterSet = std::vector<AdapterUse>;

}  // namespace svc
