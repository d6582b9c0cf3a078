// A model file into one with smaller weights, by libllama's own quantiser.
//
// It writes as it goes, holds a bounded part of the weights in memory, and tells its progress as
// log lines only (SetLogSink), one when it is done with a tensor:
//
//   [  12/ 290] blk.1.ffn_down.weight - [...], type = f16, converting to q4_K .. size = ...
//
// It cannot be stopped but with its process, and a damaged file may end that.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace svc {

struct QuantizeOptions {
  std::string input;           // of a model in parts, the first; the others are found beside it
  std::string output;          // one file; what is there is written over
  std::int32_t file_type = 0;  // llama_ftype, as `general.file_type` has it
  // Weights that are quantised already may be quantised again.
  bool allow_requantize = false;
  // Writes nothing; the last log lines tell the size that it would have.
  bool dry_run = false;
};

// Blocks: seconds to hours. Any thread. Uses all processors that this process may run on.
// Errors: kModelInvalid (the message is libllama's reason), kOutOfMemory.
// After an error `output` may be there, incomplete.
Status Quantize(const QuantizeOptions& options);

}  // namespace svc
