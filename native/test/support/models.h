// Real model files for tests. CMake defines the folders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/llama/llama_model.h"

namespace svc::test {

// Path of a file of build/models, such as "tiny-llama" or "adapters/qwen2".
std::string ModelPath(const std::string& name);

// Made by `node --import tsx test/make-model/make-model.ts tests`: three architectures, random
// weights, real vocabularies and chat templates.
std::vector<std::string> TinyModels();

// One or more of each kind of memory: full attention, sliding window, recurrent state, and hybrid.
std::vector<std::string> ModelsOfEachMemory();

// Vocabulary-only files of llama.cpp. With a sanitizer every fourth, to save time.
std::vector<std::string> Vocabularies();

// Loads the backend modules next to the test program; discards libllama's log.
void LoadModules();

// Null: it cannot be loaded.
std::unique_ptr<LlamaModel> LoadVocabulary(const std::string& path);

// Loads a tiny model; on failure fails the test with the command that creates it and returns null.
std::unique_ptr<LlamaModel> LoadTinyModel(const std::string& path);

}  // namespace svc::test
