// Quantizes a model file, with libllama's own quantizer.
//
// It writes while it computes, holds a bounded part of the weights in memory, and reports progress
// only as log lines (SetLogSink), one for each finished tensor:
//
//   [  12/ 290] blk.1.ffn_down.weight - [...], type = f16, converting to q4_K .. size = ...
//
// It can be stopped only by ending the process. A damaged input file may crash the process.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/field.h"
#include "engine/base/status.h"

namespace svc {

struct QuantizeOptions {
  std::string input;           // of a split model, the first part; finds the others beside it
  std::string output;          // one file; overwritten if it exists
  std::int32_t file_type = 0;  // llama_ftype, as in `general.file_type`
  // True: weights that are quantized already may be quantized again.
  bool allow_requantize = false;
  // True: writes nothing; the last log lines report the resulting size.
  bool dry_run = false;

  SVC_FIELDS(QuantizeOptions, (input, .required = true, .non_empty = true),
             (output, .required = true, .non_empty = true), (file_type, .required = true),
             (allow_requantize), (dry_run))
};

// Quantizes a file. Blocks: seconds to hours. Any thread. Uses all cores that this process may run
// on. Errors: kModelInvalid (the message has libllama's reason), kOutOfMemory. After an error
// `output` may exist, incomplete.
Status Quantize(const QuantizeOptions& options);

}  // namespace svc
