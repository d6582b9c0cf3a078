// Copies of model files with other metadata.
#pragma once

#include <string>

#include "folder.h"
#include "ggml-cpp.h"
#include "gguf.h"
#include "test.h"

namespace svc::test {

// Writes a copy of the model at `from` to the folder, after `edit` has changed its metadata (a
// gguf_context*). Returns its path.
template <typename Edit>
std::string EditedModel(const Folder& folder, const std::string& name, const std::string& from,
                        Edit edit) {
  std::string path = (folder.path() / (name + ".gguf")).string();
  ggml_context* tensors = nullptr;
  const gguf_context_ptr original(
      gguf_init_from_file(from.c_str(), {.no_alloc = false, .ctx = &tensors}));
  const ggml_context_ptr owner(tensors);
  if (original == nullptr) {
    Fail(__FILE__, __LINE__, from + " cannot be read");
    return path;
  }
  const gguf_context_ptr copy(gguf_init_empty());
  gguf_set_kv(copy.get(), original.get());
  edit(copy.get());
  for (std::int64_t i = 0; i < gguf_get_n_tensors(original.get()); ++i) {
    gguf_add_tensor(copy.get(), ggml_get_tensor(tensors, gguf_get_tensor_name(original.get(), i)));
  }
  EXPECT(gguf_write_to_file(copy.get(), path.c_str(), /*only_meta=*/false));
  return path;
}

}  // namespace svc::test
