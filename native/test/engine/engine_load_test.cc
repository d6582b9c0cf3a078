// Loading an engine: its ModelInfo, and files and sizes that are refused.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "engine/engine.h"
#include "engine/llama/cpu_threads.h"
#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::LoadEngine;

#if defined(__linux__)
// Returns the resident bytes of the mapped file in this process.
std::uint64_t ResidentOf(const std::string& path) {
  const std::string file = std::filesystem::canonical(path).string();
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    // The first line of a mapping begins with an address range, the others with a name.
    if (line.find('-') < line.find(' ')) inside = line.ends_with(file);
    if (inside && line.starts_with("Rss:")) bytes += std::stoull(line.substr(4)) * 1024;
  }
  return bytes;
}

TEST(WhatWasCopiedOutOfTheFileIsNotHeldTwice) {
  const std::string path = test::TinyModels()[1];
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
  REQUIRE(model != nullptr);
  EXPECT(ResidentOf(path) < std::filesystem::file_size(path) / 4);
}
#endif

TEST(InfoTellsWhatTheFileSays) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  const ModelInfo& info = loaded->engine->info();
  EXPECT_EQ(info.architecture, "qwen2");
  EXPECT_EQ(info.quantization, "Q4_0");
  EXPECT(info.description.starts_with("qwen2"));
  EXPECT_EQ(info.context_length, 2048U);
  EXPECT_EQ(info.trained_context_length, 8192U);
  EXPECT_EQ(info.layers, 2U);
  EXPECT_EQ(info.embedding_length, 64U);
  EXPECT_EQ(info.vocabulary, 151936U);
  EXPECT(info.parameters > 1000000 && info.size_bytes > 1000000);
  EXPECT_EQ(info.threads, DefaultThreads(info.size_bytes));
  EXPECT(info.has_chat_template);
  EXPECT_EQ(info.device, "CPU");
  const auto named = [&](const char* key) {
    return std::count_if(info.metadata.begin(), info.metadata.end(),
                         [&](const auto& entry) { return entry.first == key; });
  };
  EXPECT_EQ(named("general.architecture"), 1);
  EXPECT_EQ(named("tokenizer.chat_template"), 1);
}

TEST(LoadingTellsItsProgressAndCanBeCancelled) {
  test::LoadModules();
  std::vector<float> fractions;
  const Result<std::unique_ptr<Engine>> engine = Engine::Load({.path = test::TinyModels()[0],
                                                               .context_length = 256,
                                                               .on_progress =
                                                                   [&](float fraction) {
                                                                     fractions.push_back(fraction);
                                                                     return true;
                                                                   }},
                                                              [](auto) {});
  EXPECT(engine.ok());
  REQUIRE(fractions.size() > 1);
  EXPECT(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0F);
  for (const float limit : {0.0F, 0.5F}) {
    const Result<std::unique_ptr<Engine>> cancelled =
        Engine::Load({.path = test::TinyModels()[0],
                      .on_progress = [&](float fraction) { return fraction < limit; }},
                     [](auto) {});
    EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WrongFilesGiveStatuses) {
  test::LoadModules();
  const auto folder = std::filesystem::temp_directory_path() / "svc-engine-test";
  std::filesystem::create_directories(folder);
  const auto status = [&](const std::string& bytes) {
    const std::string path = (folder / "wrong.gguf").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return Engine::Load({.path = path}, [](auto) {}).status();
  };
  const std::string good = ReadAll(test::TinyModels()[0]);
  REQUIRE(good.size() > 1000000);
  std::string huge_header = good.substr(0, 4096);
  huge_header.replace(8, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8);  // tensors
  std::string huge_metadata = good.substr(0, 4096);
  huge_metadata.replace(16, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8);
  std::string wrong_version = good;
  wrong_version.replace(4, 4, "\x63\0\0\0", 4);
  for (const std::string& bytes :
       {std::string(), std::string("GG"), std::string("GGUF"), std::string("not a model at all"),
        "GGML" + good.substr(4), good.substr(0, 100), good.substr(0, 50000),
        good.substr(0, good.size() / 2), good.substr(0, good.size() - 100), huge_header,
        huge_metadata, wrong_version}) {
    const Status refused = status(bytes);
    EXPECT_EQ(refused.code(), StatusCode::kModelInvalid);
    EXPECT(!refused.message().empty() && refused.message().find('\n') == std::string::npos);
    std::printf("     %s\n", refused.message().c_str());
  }
  for (const std::string& path :
       {std::string("/nonexistent/model.gguf"), folder.string(),
        std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-qwen2.gguf",
        std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-bert-bge.gguf"}) {
    const Status refused = Engine::Load({.path = path}, [](auto) {}).status();
    EXPECT_EQ(refused.code(), StatusCode::kModelInvalid);
    std::printf("     %s\n", refused.message().c_str());
  }
  std::filesystem::remove_all(folder);
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
// In a child process that may map only 2 GiB, so that the machine does not run out of memory.
TEST(ACacheThatDoesNotFitIsOutOfMemory) {
  test::LoadModules();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{2ULL << 30U, 2ULL << 30U};
    setrlimit(RLIMIT_AS, &limit);
    const Status status =
        Engine::Load({.path = test::TinyModels()[0], .context_length = 16U << 20U, .threads = 1},
                     [](auto) {})
            .status();
    std::printf("     %s\n", status.message().c_str());
    std::fflush(stdout);
    _exit(status.code() == StatusCode::kOutOfMemory ? 42 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}
#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
