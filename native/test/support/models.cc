#include "models.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/llama/devices.h"
#include "test.h"

namespace svc::test {

std::string ModelPath(const std::string& name) {
  return std::string(SVC_TEST_MODELS) + "/" + name + ".gguf";
}

std::vector<std::string> TinyModels() {
  std::vector<std::string> paths;
  for (const char* name : {"tiny-llama", "tiny-qwen2", "tiny-gemma"}) {
    paths.push_back(ModelPath(name));
  }
  return paths;
}

std::vector<std::string> ModelsOfEachMemory() {
  std::vector<std::string> paths = TinyModels();
  for (const char* name :
       {"tiny-gemma2", "tiny-gemma3", "tiny-gpt-oss", "tiny-mamba", "tiny-lfm2", "tiny-qwen35"}) {
    paths.push_back(ModelPath(name));
  }
  return paths;
}

std::vector<std::string> Vocabularies() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SVC_LLAMA_SOURCE_DIR) + "/models")) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (kSanitized) std::erase_if(paths, [n = 0](const auto&) mutable { return n++ % 4 != 0; });
  return paths;
}

void LoadModules() {
  SetLogSink(nullptr);
  const Status status = LoadBackends(SVC_TEST_MODULES);
  if (!status.ok()) Fail(__FILE__, __LINE__, status.message());
}

std::unique_ptr<LlamaModel> LoadVocabulary(const std::string& path) {
  LoadModules();
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model_ptr model(llama_model_load_from_file(path.c_str(), params));
  if (model == nullptr) return nullptr;
  return std::make_unique<LlamaModel>(std::move(model), "CPU");
}

std::unique_ptr<LlamaModel> LoadTinyModel(const std::string& path) {
  LoadModules();
  Result<std::unique_ptr<LlamaModel>> model = LlamaModel::Load({.path = path});
  if (model.ok()) return std::move(model.value());
  Fail(__FILE__, __LINE__,
       model.status().message() + " (node --import tsx test/make-model/make-model.ts tests)");
  return nullptr;
}

}  // namespace svc::test
