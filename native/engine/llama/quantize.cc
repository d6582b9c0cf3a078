#include "engine/llama/quantize.h"

#include "engine/llama/cpu_threads.h"
#include "engine/llama/log_capture.h"
#include "llama.h"

namespace svc {
namespace {

// Limit for the rows of a tensor in memory at the same time. libllama's default is 8 GiB.
constexpr std::size_t kMaxBufferBytes = 512U << 20U;

}  // namespace

Status Quantize(const QuantizeOptions& options) {
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = DefaultThreads();
  params.ftype = static_cast<llama_ftype>(options.file_type);
  params.allow_requantize = options.allow_requantize;
  params.dry_run = options.dry_run;
  params.max_buf_size = kMaxBufferBytes;

  const LogCapture log;
  if (llama_model_quantize(options.input.c_str(), options.output.c_str(), &params) == 0) {
    return Status::Ok();
  }
  if (log.OutOfMemory()) {
    return {StatusCode::kOutOfMemory, "there is not enough memory to quantise the model"};
  }
  const std::string reason = log.Reason();
  return {StatusCode::kModelInvalid, reason.empty() ? "the model cannot be quantised"
                                                    : "the model cannot be quantised: " + reason};
}

}  // namespace svc
