// Fingerprint of the model that a saved state belongs to. A state holds the number of layers and
// the element type, but not the model's identity: loaded into another model of the same shape, it
// would produce nonsense.
#pragma once

#include <string>

#include "engine/cache/prefix_file.h"

namespace svc {

// Hash of the file's size, its modification time, samples from all over the file, and `version`
// (everything else that a state depends on). Reads one megabyte. If the file cannot be read, the
// hash covers the remaining inputs.
Fingerprint FingerprintOf(const std::string& path, const std::string& version);

}  // namespace svc
