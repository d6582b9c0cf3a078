// The whole engine on real files.
#include "engine/engine.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "engine/chat_renderer.h"
#include "engine/cpu_threads.h"
#include "models.h"
#include "reference.h"
#include "test.h"

namespace svc {
namespace {

using namespace std::chrono_literals;

// What the sink has heard.
class Listener {
 public:
  OutputSink Sink() {
    return [this](std::vector<GenerationOutput> outputs) {
      const std::lock_guard lock(mutex_);
      for (GenerationOutput& output : outputs) {
        texts_[output.id] += output.text;
        std::move(output.logprobs.begin(), output.logprobs.end(),
                  std::back_inserter(logprobs_[output.id]));
        if (output.done) ends_[output.id] = std::move(output);
      }
      heard_.notify_all();
    };
  }
  bool WaitFor(GenerationId id) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, 120s, [&] { return ends_.contains(id); });
  }
  bool WaitForText(GenerationId id) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, 120s, [&] { return !texts_[id].empty(); });
  }
  std::string Text(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return texts_[id];
  }
  std::vector<TokenLogprobs> Logprobs(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return logprobs_[id];
  }
  GenerationOutput End(GenerationId id) {
    const std::lock_guard lock(mutex_);
    return ends_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<GenerationId, std::string> texts_;
  std::map<GenerationId, std::vector<TokenLogprobs>> logprobs_;
  std::map<GenerationId, GenerationOutput> ends_;
};

struct Loaded {
  Listener listener;
  std::unique_ptr<Engine> engine;
};

std::unique_ptr<Loaded> LoadEngine(const std::string& path, std::uint32_t context_length = 2048,
                                   int threads = 0) {
  test::LoadModules();
  auto loaded = std::make_unique<Loaded>();
  Result<std::unique_ptr<Engine>> engine =
      Engine::Load({.path = path, .context_length = context_length, .threads = threads},
                   loaded->listener.Sink());
  if (!engine.ok()) {
    test::Fail(__FILE__, __LINE__, engine.status().message());
    return nullptr;
  }
  loaded->engine = std::move(engine.value());
  return loaded;
}

// About `words` words.
std::string Prompt(int words, int start) {
  static const std::vector<std::string> kWords = {"the",    "river", "runs",  "under", "old",
                                                  "bridge", "and",   "seven", "boats", "wait"};
  std::string text;
  for (int i = 0; i < words; ++i) text += (i == 0 ? "" : " ") + kWords[(start * 3 + i * 7) % 10];
  return text;
}

GenerationRequest Request(GenerationId id, const std::string& prompt, SamplingParams sampling,
                          std::uint32_t max_tokens) {
  GenerationRequest request;
  request.id = id;
  request.prompt = prompt;
  request.sampling = std::move(sampling);
  request.max_tokens = max_tokens;
  return request;
}

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

SamplingParams Seeded(std::uint32_t seed) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

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

// The same text as the plain loop: greedily, with seeds, with every parameter, from raw prompts
// (short, and of several batches) and from chats.
TEST(TextEqualsThePlainLoop) {
  std::vector<SamplingParams> samplings = {Greedy(), Seeded(1), Seeded(4242)};
  samplings.push_back(Seeded(7));
  samplings.back().temperature = 1.3F;
  samplings.back().top_k = 0;
  samplings.back().top_p = 0.8F;
  samplings.back().min_p = 0;
  samplings.push_back(Seeded(8));
  samplings.back().repeat_penalty = 1.3F;
  samplings.back().frequency_penalty = 0.4F;
  samplings.back().presence_penalty = 0.2F;
  samplings.back().penalty_last_n = 32;
  samplings.push_back(Seeded(9));
  samplings.back().logit_bias = {{300, 4.0F}, {301, -INFINITY}, {302, 2.5F}};
  samplings.push_back(Greedy());
  samplings.back().repeat_penalty = 1.2F;
  int texts = 0;
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(loaded != nullptr && model != nullptr);
    const auto renderer = ChatRenderer::New(*model);
    REQUIRE(renderer.ok());
    GenerationId id = 0;
    for (const SamplingParams& sampling : samplings) {
      for (const int words : {3, 40, 900}) {
        GenerationRequest request = Request(++id, Prompt(words, 1), sampling, 48);
        request.reuse_prefix = false;  // the plain loop does not either
        std::vector<Token> tokens = model->Tokenize(request.prompt, true, true).value();
        if (words == 40) {
          request.messages = {{"user", Prompt(words, 2)}};
          tokens = renderer.value()->RenderTokens(request.messages).value().tokens;
        }
        const test::Reference expected =
            test::RunReference(*model, tokens, sampling, 48, 2048, loaded->engine->info().threads);
        const Result<std::uint32_t> submitted = loaded->engine->Submit(std::move(request));
        REQUIRE(submitted.ok() && loaded->listener.WaitFor(id));
        EXPECT_EQ(submitted.value(), tokens.size());
        const GenerationOutput end = loaded->listener.End(id);
        EXPECT(end.status.ok());
        EXPECT_EQ(loaded->listener.Text(id), expected.text);
        EXPECT_EQ(end.usage.output_tokens, expected.tokens.size());
        EXPECT_EQ(end.reason, expected.ended ? FinishReason::kStop : FinishReason::kLength);
        ++texts;
      }
    }
  }
  std::printf("     %d texts\n", texts);
}

TEST(ASeedRepeatsATextWhateverIsCached) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    GenerationId id = 0;
    std::vector<std::string> texts;
    for (int round = 0; round < 3; ++round) {
      REQUIRE(loaded->engine->Submit(Request(++id, Prompt(100, 1), Seeded(5), 40)).ok());
      REQUIRE(loaded->listener.WaitFor(id));
      EXPECT_EQ(loaded->listener.End(id).usage.cached_tokens, 0U);
      texts.push_back(loaded->listener.Text(id));
      // Others leave prefixes behind, of the same prompt and of others, and find them.
      for (const int words : {100, 160, 160}) {
        REQUIRE(loaded->engine->Submit(Request(++id, Prompt(words, 1), Greedy(), 20)).ok());
        REQUIRE(loaded->listener.WaitFor(id));
      }
      EXPECT(loaded->listener.End(id).usage.cached_tokens > 100);
      EXPECT(loaded->engine->stats().cells_cached > 100);
    }
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
  }
}

constexpr const char* kNameAndAge =
    "root ::= \"{\\\"name\\\": \\\"\" [A-Za-z ]{1,12} \"\\\", \\\"age\\\": \" [1-9] [0-9]? \"}\"";

// Asked for probabilities, it draws each token, and so the same ones as llama.cpp.
TEST(TextUnderAGrammarEqualsThePlainLoop) {
  const std::string list = "root ::= (\"- \" [^\\n]+ \"\\n\"){1,4}";
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(loaded != nullptr && model != nullptr);
    GenerationId id = 0;
    for (const SamplingParams& sampling : {Greedy(), Seeded(1), Seeded(2)}) {
      for (const std::string& gbnf : {std::string(kNameAndAge), list}) {
        GenerationRequest request = Request(++id, Prompt(12, 1), sampling, 32);
        request.grammar = gbnf;
        request.logprobs = 2;
        const std::vector<Token> tokens = model->Tokenize(request.prompt, true, true).value();
        const test::Reference expected = test::RunReference(*model, tokens, sampling, 32, 2048,
                                                            loaded->engine->info().threads, gbnf);
        REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
        EXPECT_EQ(loaded->listener.Text(id), expected.text);
        EXPECT_EQ(loaded->listener.End(id).reason,
                  expected.ended ? FinishReason::kStop : FinishReason::kLength);
      }
    }
  }
}

TEST(AGrammarEndsTheText) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path);
    REQUIRE(loaded != nullptr);
    for (const GenerationId id : {1U, 2U, 3U}) {
      GenerationRequest request = Request(id, "Who?", Seeded(id), 64);
      request.grammar = kNameAndAge;
      REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(id));
      const std::string text = loaded->listener.Text(id);
      const GenerationOutput end = loaded->listener.End(id);
      EXPECT(text.starts_with("{\"name\": \"") && text.ends_with("}"));
      EXPECT_EQ(end.reason, FinishReason::kStop);
      EXPECT(end.usage.output_tokens > 3);
      // What leaves no choice takes no step of its own.
      EXPECT(loaded->engine->stats().steps < loaded->engine->stats().generated_tokens);
    }
    // Cut, it is not whole, and says so.
    GenerationRequest cut = Request(9, "Who?", Seeded(9), 3);
    cut.grammar = kNameAndAge;
    REQUIRE(loaded->engine->Submit(std::move(cut)).ok() && loaded->listener.WaitFor(9));
    EXPECT_EQ(loaded->listener.End(9).reason, FinishReason::kLength);
    EXPECT_EQ(loaded->listener.End(9).usage.output_tokens, 3U);
  }
}

TEST(GrammarsThatCannotBeFollowedAreRefused) {
  const auto loaded = LoadEngine(test::TinyModels()[0], 512);
  REQUIRE(loaded != nullptr);
  GenerationRequest wrong = Request(1, "Hi", Greedy(), 4);
  wrong.grammar = "root ::= (";
  const Result<std::uint32_t> refused = loaded->engine->Submit(wrong);
  REQUIRE(!refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(refused.status().param(), "grammar");
  EXPECT(refused.status().message().starts_with("line 1, column 11"));
}

TEST(LogprobsComeWithTheTextOfTheirTokens) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Request(1, "Tell me", Greedy(), 24);
  request.logprobs = 3;
  REQUIRE(loaded->engine->Submit(std::move(request)).ok() && loaded->listener.WaitFor(1));
  const std::vector<TokenLogprobs> told = loaded->listener.Logprobs(1);
  const GenerationOutput end = loaded->listener.End(1);
  EXPECT(told.size() == end.usage.output_tokens || told.size() + 1 == end.usage.output_tokens);
  std::string bytes;
  for (const TokenLogprobs& token : told) {
    bytes += token.chosen.bytes;
    REQUIRE(token.top.size() == 3);
    EXPECT_EQ(token.top[0].bytes, token.chosen.bytes);  // greedy
    EXPECT_EQ(token.top[0].logprob, token.chosen.logprob);
    EXPECT(token.chosen.logprob <= 0 && token.top[1].logprob <= token.top[0].logprob);
  }
  TextStream stream({});
  std::string text;
  (void)stream.Push(bytes, &text);
  stream.Finish(&text);
  EXPECT_EQ(text, loaded->listener.Text(1));

  // What a stop string cuts off is not told either.
  const std::string stop = text.substr(text.size() / 2, 3);
  GenerationRequest stopped = Request(2, "Tell me", Greedy(), 24);
  stopped.logprobs = 0;
  stopped.stop = {stop};
  REQUIRE(loaded->engine->Submit(std::move(stopped)).ok() && loaded->listener.WaitFor(2));
  std::size_t before_last = 0;
  const std::vector<TokenLogprobs> kept = loaded->listener.Logprobs(2);
  for (std::size_t i = 0; i + 1 < kept.size(); ++i) before_last += kept[i].chosen.bytes.size();
  EXPECT(before_last <= loaded->listener.Text(2).size());
  EXPECT(loaded->listener.Text(2).size() < text.size());
}

TEST(ThreadsDoNotChangeTheText) {
  std::map<int, std::string> texts;
  for (const int threads : {1, 2}) {
    const auto loaded = LoadEngine(test::TinyModels()[0], 512, threads);
    REQUIRE(loaded != nullptr);
    EXPECT_EQ(loaded->engine->info().threads, threads);
    REQUIRE(loaded->engine->Submit(Request(1, "Once", Greedy(), 8)).ok());
    REQUIRE(loaded->listener.WaitFor(1));
    texts[threads] = loaded->listener.Text(1);
  }
  EXPECT_EQ(texts[1], texts[2]);
}

TEST(AnUnseededDrawDiffersFromTheNext) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  for (const GenerationId id : {1U, 2U}) {
    REQUIRE(loaded->engine->Submit(Request(id, "Once", {}, 32)).ok());
    REQUIRE(loaded->listener.WaitFor(id));
  }
  EXPECT(loaded->listener.Text(1) != loaded->listener.Text(2));
}

TEST(StopStringsEndTheText) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  REQUIRE(loaded->listener.WaitFor(1));
  const std::string whole = loaded->listener.Text(1);
  REQUIRE(whole.size() > 40);
  const std::string stop = whole.substr(whole.size() / 2, 6);
  GenerationRequest request = Request(2, "Once", Seeded(3), 40);
  request.stop = {"never to be seen", stop};
  REQUIRE(loaded->engine->Submit(std::move(request)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  EXPECT_EQ(loaded->listener.Text(2), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(loaded->listener.End(2).reason, FinishReason::kStop);
}

TEST(APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  const auto loaded = LoadEngine(test::TinyModels()[0], 256);
  REQUIRE(loaded != nullptr);
  const std::vector<Token> tokens = loaded->engine->Tokenize(Prompt(600, 1), true, true).value();
  const Result<std::uint32_t> refused =
      loaded->engine->Submit(Request(1, Prompt(600, 1), Greedy(), 1));
  EXPECT_EQ(refused.status().code(), StatusCode::kContextOverflow);
  EXPECT(refused.status().message().find(std::to_string(tokens.size())) != std::string::npos);
  EXPECT(refused.status().message().find("256") != std::string::npos);

  // The largest that fits leaves room for one token; one more does not.
  std::vector<Token> fitting(tokens.begin() + 1, tokens.begin() + 255);
  std::string text = loaded->engine->Detokenize(fitting, false);
  std::size_t length = loaded->engine->Tokenize(text, true, true).value().size();
  while (length < 255) length = loaded->engine->Tokenize(text += " the", true, true).value().size();
  REQUIRE(length == 255);
  REQUIRE(loaded->engine->Submit(Request(2, text, Greedy(), 10)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  EXPECT_EQ(loaded->listener.End(2).reason, FinishReason::kLength);
  EXPECT_EQ(loaded->listener.End(2).usage.output_tokens, 1U);
  EXPECT_EQ(loaded->engine->Submit(Request(3, text + " the", Greedy(), 10)).status().code(),
            StatusCode::kContextOverflow);
}

TEST(AGenerationThatReachesTheContextsEndIsLength) {
  const auto loaded = LoadEngine(test::TinyModels()[1], 256);
  REQUIRE(loaded != nullptr);
  GenerationRequest request = Request(1, Prompt(100, 1), Greedy(), 0);
  request.max_tokens.reset();
  const Result<std::uint32_t> input = loaded->engine->Submit(std::move(request));
  REQUIRE(input.ok() && loaded->listener.WaitFor(1));
  const GenerationOutput end = loaded->listener.End(1);
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.usage.input_tokens + end.usage.output_tokens, 256U);
}

TEST(RequestsThatMakeNoSenseAreRefused) {
  const auto loaded = LoadEngine(test::TinyModels()[1]);
  REQUIRE(loaded != nullptr);
  const auto code = [&](const std::string& prompt, const SamplingParams& sampling) {
    return loaded->engine->Submit(Request(1, prompt, sampling, 1)).status().code();
  };
  EXPECT_EQ(code("", {}), StatusCode::kInvalidRequest);  // no BOS in this vocabulary
  for (const auto& spoil : std::vector<void (*)(SamplingParams&)>{
           [](SamplingParams& p) { p.temperature = NAN; },
           [](SamplingParams& p) { p.temperature = -1; },
           [](SamplingParams& p) { p.temperature = INFINITY; },
           [](SamplingParams& p) { p.top_p = 1.1F; }, [](SamplingParams& p) { p.min_p = NAN; },
           [](SamplingParams& p) { p.top_k = -1; }, [](SamplingParams& p) { p.repeat_penalty = 0; },
           [](SamplingParams& p) { p.frequency_penalty = INFINITY; },
           [](SamplingParams& p) { p.presence_penalty = NAN; },
           [](SamplingParams& p) { p.penalty_last_n = -2; },
           [](SamplingParams& p) {
             p.logit_bias = {{-1, 1.0F}};
           },
           [](SamplingParams& p) {
             p.logit_bias = {{151936, 1.0F}};
           },
           [](SamplingParams& p) {
             p.logit_bias = {{5, NAN}};
           }}) {
    SamplingParams params;
    spoil(params);
    EXPECT_EQ(code("Hello", params), StatusCode::kInvalidRequest);
  }
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
// In a process of its own that may map 2 GiB, so that no other has to suffer.
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

TEST(CancelPauseAndResume) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 1500)).ok());
  REQUIRE(loaded->listener.WaitForText(1));
  loaded->engine->Pause(1);
  REQUIRE(loaded->engine->Submit(Request(2, "Twice", Seeded(3), 20)).ok());
  REQUIRE(loaded->listener.WaitFor(2));
  const std::string paused = loaded->listener.Text(1);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(loaded->listener.Text(1), paused);
  EXPECT_EQ(loaded->engine->stats().active, 1U);
  EXPECT(loaded->engine->stats().cells_used > 0);
  loaded->engine->Resume(1);
  loaded->engine->Cancel(1);
  REQUIRE(loaded->listener.WaitFor(1));
  EXPECT_EQ(loaded->listener.End(1).reason, FinishReason::kCancelled);
  EXPECT_EQ(loaded->engine->stats().cells_used, 0U);
}

TEST(ALongPromptIsCancelledWithinAStep) {
  const auto loaded = LoadEngine(test::TinyModels()[1], 8192);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, Prompt(7000, 1), Greedy(), 10)).ok());
  while (loaded->engine->stats().steps == 0) std::this_thread::sleep_for(1ms);
  loaded->engine->Cancel(1);
  REQUIRE(loaded->listener.WaitFor(1));
  EXPECT_EQ(loaded->listener.End(1).reason, FinishReason::kCancelled);
  EXPECT(loaded->engine->stats().prompt_tokens < 6000);
}

// More than the cache holds: some are preempted and go on, and all end as they should.
TEST(MoreThanTheCacheHoldsTakeTurns) {
  for (const std::string& path : test::TinyModels()) {
    const auto loaded = LoadEngine(path, 512);
    REQUIRE(loaded != nullptr);
    for (GenerationId id = 0; id < 8; ++id) {
      GenerationRequest request = Request(id, Prompt(60, static_cast<int>(id)), Greedy(), 90);
      request.priority = id % 2 == 0 ? Priority::kInteractive : Priority::kBatch;
      REQUIRE(loaded->engine->Submit(std::move(request)).ok());
    }
    for (GenerationId id = 0; id < 8; ++id) {
      REQUIRE(loaded->listener.WaitFor(id));
      const GenerationOutput end = loaded->listener.End(id);
      EXPECT(end.status.ok());
      EXPECT(end.usage.output_tokens == 90 || end.reason == FinishReason::kStop);
    }
    const EngineStats stats = loaded->engine->stats();
    EXPECT(stats.preemptions > 0);
    EXPECT_EQ(stats.cells_used, 0U);
    EXPECT(stats.last_step.predicted_ms > 0 && stats.last_step.spent_ms > 0);
  }
}

TEST(CloseWhileGenerating) {
  const auto loaded = LoadEngine(test::TinyModels()[0]);
  REQUIRE(loaded != nullptr);
  for (GenerationId id = 0; id < 12; ++id) {
    REQUIRE(loaded->engine->Submit(Request(id, Prompt(50, 1), Seeded(id), 1000)).ok());
  }
  REQUIRE(loaded->listener.WaitForText(3));
  loaded->engine->Close();
  for (GenerationId id = 0; id < 12; ++id) REQUIRE(loaded->listener.WaitFor(id));
  EXPECT_EQ(loaded->engine->Submit(Request(50, "x", {}, 1)).status().code(),
            StatusCode::kEngineUnavailable);
  loaded->engine->Close();
}

TEST(AnEngineMayBeDestroyedWhileItGenerates) {
  const auto loaded = LoadEngine(test::TinyModels()[2]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 1500)).ok());
  REQUIRE(loaded->listener.WaitForText(1));
  loaded->engine.reset();
  REQUIRE(loaded->listener.WaitFor(1));
}

TEST(TwoEnginesLiveSideBySide) {
  const auto one = LoadEngine(test::TinyModels()[0], 512);
  const auto two = LoadEngine(test::TinyModels()[1], 512);
  REQUIRE(one != nullptr && two != nullptr);
  REQUIRE(one->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  REQUIRE(two->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  EXPECT(one->listener.WaitFor(1));
  EXPECT(two->listener.WaitFor(1));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
