// Memory of a projector (media/projector.h), for an estimate.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/types/load_options.h"
#include "mtmd.h"

namespace svc {

// Parameters with which LoadOptions::projector_path is loaded.
mtmd_context_params ProjectorParams(const LoadOptions& options, int threads);

// Its memory on each device, by ggml's name of the device. Empty: it cannot be used.
std::vector<std::pair<std::string, std::uint64_t>> ProjectorBytes(const LoadOptions& options);

}  // namespace svc
