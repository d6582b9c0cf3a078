// Engine::Load: the kind of engine for each kind of model, progress, and files that are refused.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "child_process.h"
#include "engine/engine.h"
#include "folder.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

// Returns the kind of engine for a model: which one of its interfaces is not null.
std::string KindOf(const std::string& model) {
  test::LoadModules();
  const Result<std::unique_ptr<Engine>> engine =
      Engine::Load({.path = test::ModelPath(model), .threads = 1}, [](auto) {});
  if (!engine.ok()) return engine.status().message();
  std::string kinds;
  if (engine.value()->text() != nullptr) kinds += " text";
  if (engine.value()->embedding() != nullptr) kinds += " embedding";
  if (engine.value()->ranking() != nullptr) kinds += " ranking";
  return kinds;
}

TEST(TheModelDecidesTheKindOfEngine) {
  for (const char* model : {"tiny-llama", "tiny-mamba"}) EXPECT_EQ(KindOf(model), " text");
  for (const char* model : {"tiny-bert", "tiny-llama-embed"}) {
    EXPECT_EQ(KindOf(model), " embedding");
  }
  for (const char* model : {"tiny-rank", "tiny-rank-qwen3"}) EXPECT_EQ(KindOf(model), " ranking");
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
  const test::Folder folder;
  const auto status = [&](const std::string& bytes) {
    const std::string path = (folder.path() / "wrong.gguf").string();
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
       {std::string("/nonexistent/model.gguf"), folder.path().string(),
        std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-qwen2.gguf",
        std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-bert-bge.gguf"}) {
    const Status refused = Engine::Load({.path = path}, [](auto) {}).status();
    EXPECT_EQ(refused.code(), StatusCode::kModelInvalid);
    std::printf("     %s\n", refused.message().c_str());
  }
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
// In a child process that may map only 2 GiB, so that the machine does not run out of memory.
TEST(ACacheThatDoesNotFitIsOutOfMemory) {
  test::LoadModules();
  const std::string end = test::EndOfChild([] {
    const rlimit limit{2ULL << 30U, 2ULL << 30U};
    setrlimit(RLIMIT_AS, &limit);
    const Status status =
        Engine::Load({.path = test::TinyModels()[0], .context_length = 16U << 20U, .threads = 1},
                     [](auto) {})
            .status();
    std::printf("     %s\n", status.message().c_str());
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  });
  EXPECT_EQ(end, "");
}
#endif

}  // namespace
}  // namespace svc

TEST_MAIN()
