// Which model a saved state is of. A state says how many layers it has and of what type its
// numbers are, but not of what model: loaded into another one of the same shape it would make it
// talk nonsense.
#pragma once

#include <string>

#include "engine/cache/prefix_file.h"

namespace svc {

// Of the file's size, the time of its last change and samples of all its parts; and of `version`:
// whatever else a state depends on. Reads a megabyte. A file that cannot be read: of the rest.
Fingerprint FingerprintOf(const std::string& path, const std::string& version);

}  // namespace svc
