// Loads the LoRA adapters of a model, and decides which can be used.
//
// libllama checks that an adapter's tensors have the shapes that its model needs, but ends the
// process for some damaged files: when it reads metadata of another type, or when it computes with
// tensors of a type or shape that ggml does not multiply. All that is checked here first, from the
// file's header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/types/adapters.h"
#include "llama.h"

namespace svc {

// Memory that an adapter takes, from its file's header. All 0: it cannot be used.
struct AdapterMemory {
  std::uint64_t weights_bytes = 0;
  std::uint32_t widest_rows = 0;   // floats of its largest correction of a row
  std::uint32_t output_width = 0;  // floats of its correction of a row's logits; 0: none
};
AdapterMemory AdapterMemoryOf(const std::string& path);

// Immutable once loaded. The adapters belong to the model, which frees them. Any thread.
class Adapters {
 public:
  Adapters() = default;
  // Loads the files for a model; one that cannot be used has an error instead. `path`: the model's
  // file. REQUIRES: the model has no contexts yet, because libllama sizes their graphs by the
  // adapters; it was loaded with weights.
  Adapters(llama_model* model, const std::string& path, const std::vector<AdapterFile>& files);

  // Adapters that a request names, without those of scale 0. Error: kInvalidRequest.
  Result<AdapterSet> Choose(const std::vector<AdapterWish>& wishes) const;

  // In the order of the files.
  const std::vector<AdapterInfo>& infos() const { return infos_; }
  const std::vector<llama_adapter_lora*>& handles() const {
    return handles_;
  }  // null: has an error

 private:
  std::vector<AdapterInfo> infos_;
  std::vector<llama_adapter_lora*> handles_;
};

// Makes a context compute with these adapters from now on. Cheap if it does so already; otherwise
// libllama plans its graph anew before the next batch. REQUIRES: all handles in the set are not
// null.
void UseAdapters(llama_context* context, const std::vector<llama_adapter_lora*>& handles,
                 const AdapterSet& set);

}  // namespace svc
