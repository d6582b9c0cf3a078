#include "engine/llama/cpu/cpu_kernels.h"

#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/cpu/attention_op.h"
#include "engine/llama/cpu/kernel_samples.h"
#include "engine/llama/cpu/kernel_times.h"
#include "engine/llama/cpu/loaded_library.h"
#include "engine/llama/cpu/thread_shares.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu/traits.h"
#include "kernels/kernels.h"
#include "llama.h"
#ifdef SVC_MATRIX_KERNELS
#include "engine/llama/cpu/interleaved_weights.h"
#endif

// ggml declares these destructors and defines them in a module that is loaded at run time, so
// nothing can be linked.
ggml::cpu::tensor_traits::~tensor_traits() = default;
ggml::cpu::extra_buffer_type::~extra_buffer_type() = default;

namespace svc {
namespace {

// ggml's hook: whether our kernels compute an operation. No weights are loaded into its buffers.
class AttentionHook final : public ggml::cpu::extra_buffer_type {
 public:
  explicit AttentionHook(const Kernels& kernels) : attention_(NewAttention(kernels)) {}

  bool supports_op(ggml_backend_dev_t, const ggml_tensor*) override { return false; }

  ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
    return TakesAttention(op) ? attention_.get() : nullptr;
  }

 private:
  const Operation attention_;
};

// Buffer type that only carries the hook. Never destroyed: models may be freed after the end of
// main.
ggml_backend_buffer_type_t AttentionType() {
  static ggml_backend_buffer_type type{
      .iface = {
          .get_name = [](ggml_backend_buffer_type_t) { return "SVC_ATTENTION"; },
          .alloc_buffer =
              [](ggml_backend_buffer_type_t, std::size_t size) {
                return ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
              },
          .get_alignment = [](ggml_backend_buffer_type_t) { return kAlignment; },
          .get_max_size = nullptr,
          .get_alloc_size = nullptr,
          .is_host = nullptr,
      },
      .device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU),
      .context = new AttentionHook(SupportedKernels().front()),
  };
  return &type;
}

using BufferTypes = std::vector<ggml_backend_buffer_type_t>;
using ListTypes = BufferTypes&();

// True if the library has the version of the headers that this file was compiled with: those are
// internal to ggml and may change with any version.
bool IsOfOurHeaders() { return std::string_view(ggml_version()) == SVC_GGML_VERSION; }

// Finds what we need in the CPU module; returns the function that lists its buffer types. Null: a
// function is missing.
ListTypes* FindModule() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return nullptr;
  void* known = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                  "ggml_threadpool_new");
  if (known == nullptr) return nullptr;
  const LoadedLibrary library(known);
  ListTypes* types = nullptr;
  const bool found = library.Find("_Z39ggml_backend_cpu_get_extra_buffer_typesv", types) &&
                     library.Find("ggml_barrier", pool.barrier) &&
                     library.Find("ggml_threadpool_chunk_set", pool.set_share) &&
                     library.Find("ggml_threadpool_chunk_add", pool.add_share);
  return found ? types : nullptr;
}

void Log(ggml_log_level level, const std::string& sentence) {
  ggml_log_callback log = nullptr;
  void* user = nullptr;
  llama_log_get(&log, &user);
  if (log != nullptr) log(level, (sentence + "\n").c_str(), user);
}

// Buffer type of the samples' weights.
ggml_backend_buffer_type_t SampledWeights() {
#ifdef SVC_MATRIX_KERNELS
  return InterleavedWeights();
#else
  return ggml_backend_cpu_buffer_type();
#endif
}

// Returns the list with our buffer types before ggml's repacking one.
BufferTypes WithOurs(const BufferTypes& theirs) {
  BufferTypes types;
#ifdef SVC_MATRIX_KERNELS
  types.push_back(InterleavedWeights());
#endif
  types.push_back(AttentionType());
  types.insert(types.end(), theirs.begin(), theirs.end());
  return types;
}

// Registers the kernels if their results are right and, unless a benchmark has measured them, they
// are not slower.
bool Register(const Kernels& kernels, BufferTypes& types, AreSlower are_slower) {
  // ggml's products for AMX take the n-th sequence's weights from behind the matrix, so that
  // recurrent models compute garbage, or crash, as soon as two texts share a batch
  // (ggml_batch_offset in ggml-cpu/amx/mmq.cpp does not broadcast). Ours are faster, too
  // (docs/benchmarks.md).
  std::erase_if(types, [](ggml_backend_buffer_type_t type) {
    return std::string_view(ggml_backend_buft_name(type)) == "AMX";
  });
  const BufferTypes theirs = types;
  const BufferTypes ours = WithOurs(theirs);
  const std::vector<KernelSample> expected = ComputeSamples(ggml_backend_cpu_buffer_type());
  types = ours;
  if (const char* wrong = FirstDifference(expected, ComputeSamples(SampledWeights()));
      wrong != nullptr) {
    types = theirs;
    Log(GGML_LOG_LEVEL_WARN,
        std::string("svc's CPU kernels are not used: on this processor their results for ") +
            wrong + " differ from ggml's");
    return false;
  }
  if (kernels.are_measured) return true;
  const bool is_loss = are_slower([&](bool is_ours) { types = is_ours ? ours : theirs; });
  if (is_loss) {
    types = theirs;
    Log(GGML_LOG_LEVEL_INFO,
        "svc's CPU kernels are not used: on this processor they are slower than ggml's");
  }
  return !is_loss;
}

}  // namespace

bool AreSlowerHere(const std::function<void(bool is_ours)>& use_ours) {
  return IsLoss(TimeAttention(use_ours));
}

const Kernels* UseOwnKernels(AreSlower are_slower) {
  static const Kernels* const used = [are_slower]() -> const Kernels* {
    if (SupportedKernels().empty() || !IsOfOurHeaders()) return nullptr;
    ListTypes* const types = FindModule();
    if (types == nullptr) return nullptr;
    const Kernels& kernels = SupportedKernels().front();
    return Register(kernels, types(), are_slower) ? &kernels : nullptr;
  }();
  return used;
}

}  // namespace svc
