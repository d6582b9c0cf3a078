// Conversations that continue after a restart of the engine, with models of each kind of memory:
// full attention, sliding window, recurrent state, and hybrid.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "engine/engine.h"
#include "folder.h"
#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::Folder;
using test::Prompt;

// Length of the long conversation. Each word is one token.
constexpr int kLongWords = test::kSanitized ? 3000 : 20000;
constexpr std::uint32_t kLongContext = test::kSanitized ? 4096 : 24576;

struct Answer {
  std::string text;
  GenerationUsage usage;
};

// An engine that answers one request at a time.
class Host {
 public:
  Host(const std::string& model, const std::filesystem::path& folder,
       std::uint32_t context_length = 2048, CacheType cache_type = CacheType::kF16) {
    test::LoadModules();
    LoadOptions options{.path = model, .context_length = context_length, .threads = 1};
    options.cache_type = cache_type;
    options.prefix_folder = folder;
    options.prefix_model = "model";
    options.prefix_bytes = 1U << 30U;
    options.prefix_key = {1, 2};
    Result<std::unique_ptr<Engine>> engine =
        Engine::Load(options, [this](std::vector<GenerationOutput> outputs) {
          const std::lock_guard lock(mutex_);
          for (GenerationOutput& output : outputs) {
            text_ += output.text;
            if (output.done) end_ = std::move(output);
          }
          heard_.notify_all();
        });
    if (engine.ok()) {
      engine_ = std::move(engine.value());
    } else {
      test::Fail(__FILE__, __LINE__, engine.status().message());
    }
  }

  bool is_loaded() const { return engine_ != nullptr; }

  // Generates up to 24 tokens greedily.
  Answer Ask(const std::string& prompt, bool reuse_prefix = true) {
    text_.clear();
    end_.reset();
    GenerationRequest request;
    request.id = ++last_id_;
    request.prompt = prompt;
    request.max_tokens = 24;
    request.sampling.temperature = 0;
    request.reuse_prefix = reuse_prefix;
    EXPECT(engine_->text()->Submit(std::move(request)).ok());
    std::unique_lock lock(mutex_);
    if (!heard_.wait_for(lock, std::chrono::seconds(120), [this] { return end_.has_value(); })) {
      test::Fail(__FILE__, __LINE__, "no answer");
      return {};
    }
    EXPECT(end_->status.ok());
    return {text_, end_->usage};
  }
  void SetPrefixBytes(std::uint64_t bytes) { engine_->text()->SetPrefixBytes(bytes); }
  void Close() { engine_->Close(); }
  // Tokens of prompts computed so far.
  std::uint64_t computed() const { return engine_->stats().prompt_tokens; }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::string text_;
  std::optional<GenerationOutput> end_;
  GenerationId last_id_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST(TheSecondTurnIsTheSameAfterARestart) {
  for (const std::string& model : test::ModelsOfEachMemory()) {
    const Folder folder;
    const std::string first = Prompt(260, 1);
    Answer opening;
    {
      Host host(model, folder.path());
      REQUIRE(host.is_loaded());
      opening = host.Ask(first);
      EXPECT_EQ(opening.usage.cached_tokens, 0U);
    }
    EXPECT(!folder.Files().empty());
    const std::string second = first + opening.text + " " + Prompt(30, 2);

    Host restarted(model, folder.path());
    REQUIRE(restarted.is_loaded());
    const Answer from_disk = restarted.Ask(second);

    Host other(model, "");
    REQUIRE(other.is_loaded());
    EXPECT_EQ(other.Ask(first).text, opening.text);
    const Answer from_memory = other.Ask(second);

    std::printf("     %s: %u of %u from the disk\n", std::filesystem::path(model).stem().c_str(),
                from_disk.usage.cached_tokens, from_disk.usage.input_tokens);
    EXPECT(from_disk.usage.cached_tokens > 128);
    EXPECT_EQ(from_disk.usage.cached_tokens, from_memory.usage.cached_tokens);
    EXPECT_EQ(from_disk.text, from_memory.text);
  }
}

// 2 % of its prompt, and of a short one as many as lie behind a checkpoint near its end.
std::uint32_t MostComputed(const Answer& answer) {
  return std::max(answer.usage.input_tokens / 50, 256U);
}

// Sliding windows and recurrent states: the second turn computes below 2 % of its tokens, both from
// memory and from the disk, and says the same as without reuse.
TEST(ALongConversationIsNotComputedAgain) {
  for (const char* name : {"tiny-gemma3", "tiny-gpt-oss", "tiny-qwen35"}) {
    const std::string model = test::ModelPath(name);
    const Folder folder;
    const std::string first = Prompt(kLongWords, 1);
    std::string second;
    Answer from_memory;
    {
      Host host(model, folder.path(), kLongContext);
      REQUIRE(host.is_loaded());
      second = first + host.Ask(first).text + " " + Prompt(30, 2);
      // A closing engine saves for a limited time.
      using Clock = std::chrono::steady_clock;
      const auto deadline = Clock::now() + test::kPatience;
      while (folder.Files().empty() && Clock::now() < deadline) std::this_thread::yield();
      const std::uint64_t before = host.computed();
      from_memory = host.Ask(second);
      EXPECT(host.computed() - before < MostComputed(from_memory));
      host.Close();
    }
    Host restarted(model, folder.path(), kLongContext);
    REQUIRE(restarted.is_loaded());
    const Answer from_disk = restarted.Ask(second);
    const std::uint64_t computed = restarted.computed();
    EXPECT(computed < MostComputed(from_disk));
    EXPECT_EQ(from_disk.text, from_memory.text);
    std::printf("     %s: %llu of %u computed\n", name, static_cast<unsigned long long>(computed),
                from_disk.usage.input_tokens);
    EXPECT_EQ(restarted.Ask(second, /*reuse_prefix=*/false).text, from_memory.text);
  }
}

TEST(ACheckpointChangesNoText) {
  for (const std::string& model : test::ModelsOfEachMemory()) {
    Host host(model, "");
    Host plain(model, "");
    REQUIRE(host.is_loaded() && plain.is_loaded());
    // A prompt, the same again, another ending, and a third prompt with the same beginning.
    const std::string shared = Prompt(200, 3);
    for (const std::string& prompt :
         {shared + Prompt(100, 4), shared + Prompt(100, 4), shared + " then " + Prompt(90, 5),
          shared + " but " + Prompt(80, 6)}) {
      const Answer answer = host.Ask(prompt);
      EXPECT_EQ(answer.text, plain.Ask(prompt, /*reuse_prefix=*/false).text);
      if (prompt.ends_with(Prompt(80, 6))) EXPECT(answer.usage.cached_tokens > 128);
    }
  }
}

TEST(AStateIsNotTakenForAnotherModel) {
  const Folder folder;
  const std::string prompt = Prompt(260, 1);
  {
    Host host(test::TinyModels()[0], folder.path());
    REQUIRE(host.is_loaded());
    host.Ask(prompt);
  }
  EXPECT_EQ(folder.Files().size(), 1U);
  {
    // The same file with another modification time.
    const std::string copy = folder.path() / "copy.gguf";
    std::filesystem::copy_file(test::TinyModels()[0], copy);
    Host host(copy, folder.path());
    REQUIRE(host.is_loaded());
    EXPECT_EQ(host.Ask(prompt).usage.cached_tokens, 0U);
  }
  // The saved state is still there; it does not depend on the context length.
  Host host(test::TinyModels()[0], folder.path(), 1024);
  REQUIRE(host.is_loaded());
  EXPECT(host.Ask(prompt).usage.cached_tokens > 128);
}

TEST(AStateIsNotTakenForAnotherCacheType) {
  const std::string model = test::TinyModels()[0];
  const Folder folder;
  const std::string prompt = Prompt(260, 1);
  const auto cached = [&](CacheType cache_type) {
    Host host(model, folder.path(), 2048, cache_type);
    return host.is_loaded() ? host.Ask(prompt).usage.cached_tokens : 0;
  };
  EXPECT_EQ(cached(CacheType::kF16), 0U);
  EXPECT_EQ(cached(CacheType::kQ8_0), 0U);
  EXPECT(cached(CacheType::kF16) > 128);
  EXPECT(cached(CacheType::kQ8_0) > 128);
}

TEST(NothingMoreIsWrittenOnceTheLimitIsZero) {
  const Folder folder;
  {
    Host host(test::TinyModels()[0], folder.path());
    REQUIRE(host.is_loaded());
    host.SetPrefixBytes(0);
    host.Ask(Prompt(260, 1));
  }
  EXPECT(folder.Files().empty());
}

TEST(ADamagedStateIsComputed) {
  for (const std::string& model : test::ModelsOfEachMemory()) {
    const Folder folder;
    const std::string prompt = Prompt(260, 1);
    Answer first;
    {
      Host host(model, folder.path());
      REQUIRE(host.is_loaded());
      first = host.Ask(prompt);
    }
    for (const auto& path : folder.Files()) {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<long>(std::filesystem::file_size(path) / 2));
      file.put('!');
      file.put('?');
    }
    Host host(model, folder.path());
    REQUIRE(host.is_loaded());
    const Answer again = host.Ask(prompt);
    EXPECT_EQ(again.usage.cached_tokens, 0U);
    EXPECT_EQ(again.text, first.text);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
