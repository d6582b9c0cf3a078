// Log lines as libllama sends them, cut anywhere: which reach the sink, which are captured as the
// reason of a failure, and which get a lower level after a batch was aborted.
#include "engine/llama/log_capture.h"

#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/llama/devices.h"
#include "llama.h"
#include "test.h"

namespace svc {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;  // levels and texts

// Sends a text as libllama does.
void Log(ggml_log_level level, const std::string& text) {
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  llama_log_get(&callback, &data);
  callback(level, text.c_str(), data);
}

// The lines that reach the sink.
template <typename Send>
Lines Received(Send send) {
  Lines lines;
  SetLogSink([&](const char* level, const char* text) { lines.emplace_back(level, text); });
  send();
  SetLogSink(nullptr);
  return lines;
}

std::string ReasonOf(const std::string& text) {
  const LogCapture capture;
  Log(GGML_LOG_LEVEL_ERROR, text);
  return capture.Reason();
}

TEST(LinesComeWholeWithTheLevelOfTheirBeginning) {
  const std::vector<std::pair<ggml_log_level, std::string>> levels = {
      {GGML_LOG_LEVEL_DEBUG, "debug"},
      {GGML_LOG_LEVEL_INFO, "info"},
      {GGML_LOG_LEVEL_WARN, "warn"},
      {GGML_LOG_LEVEL_ERROR, "error"}};
  std::mt19937 random(1);
  Lines expected;
  const Lines lines = Received([&] {
    for (int i = 0; i < 500; ++i) {
      const auto& [level, name] = levels[random() % levels.size()];
      std::string text;
      for (std::size_t n = random() % 4; n > 0; --n) text += "line " + std::to_string(n) + ", ";
      if (!text.empty()) expected.emplace_back(name, text);
      text += std::string(1 + random() % 2, '\n');
      std::size_t at = random() % (text.size() + 1);
      Log(level, text.substr(0, at));
      while (at < text.size()) {
        const std::size_t size = 1 + random() % 5;
        Log(GGML_LOG_LEVEL_CONT, text.substr(at, size));
        at += size;
      }
    }
  });
  EXPECT(lines == expected);
  EXPECT(lines.size() > 300);
}

TEST(OneTextMayHaveSeveralLines) {
  const Lines lines = Received([] {
    Log(GGML_LOG_LEVEL_WARN, "one\n\ntwo\nthr");
    Log(GGML_LOG_LEVEL_CONT, "ee\nfour");
  });
  EXPECT((lines == Lines{{"warn", "one"}, {"warn", "two"}, {"warn", "three"}}));
  // A new sink gets no rest of a line.
  EXPECT((Received([] { Log(GGML_LOG_LEVEL_INFO, "five\n"); }) == Lines{{"info", "five"}}));
}

TEST(TheReasonIsTheFirstErrorWithoutTheNameOfTheFunction) {
  SetLogSink(nullptr);
  EXPECT_EQ(ReasonOf(""), "");
  EXPECT_EQ(ReasonOf("no such file\n"), "no such file");
  EXPECT_EQ(ReasonOf("llama_model_load: error loading model: tensor 'x' is missing\n"),
            "tensor 'x' is missing");
  EXPECT_EQ(ReasonOf("x: failed to initialize the context: no memory.\n"), "no memory");
  EXPECT_EQ(ReasonOf("gguf_init_2: invalid magic: 'x'\nmore: of it\n"), "invalid magic: 'x'");
  EXPECT_EQ(ReasonOf("cannot open a.gguf: no such file. \t.\n"),
            "cannot open a.gguf: no such file");
  EXPECT_EQ(ReasonOf("f: \n"), "");
}

TEST(OnlyErrorsOfThisThreadAreCaptured) {
  SetLogSink(nullptr);
  {
    const LogCapture capture;
    Log(GGML_LOG_LEVEL_WARN, "a warning\n");
    Log(GGML_LOG_LEVEL_INFO, "out of memory\n");
    std::thread([] { Log(GGML_LOG_LEVEL_ERROR, "of another thread: out of memory\n"); }).join();
    EXPECT_EQ(capture.Reason(), "");
    EXPECT(!capture.OutOfMemory());
    Log(GGML_LOG_LEVEL_ERROR, "first\n");
    Log(GGML_LOG_LEVEL_ERROR, "second\n");
    EXPECT_EQ(capture.Reason(), "first");
  }
  Log(GGML_LOG_LEVEL_ERROR, "of nobody\n");
  EXPECT_EQ(LogCapture().Reason(), "");
}

TEST(AnyErrorMayTellThatMemoryRanOut) {
  SetLogSink(nullptr);
  for (const std::string text :
       {"failed to allocate buffer", "unable to allocate CPU buffer", "std::bad_alloc",
        "ggml: out of memory", "mmap: Cannot allocate memory"}) {
    const LogCapture capture;
    Log(GGML_LOG_LEVEL_ERROR, "another error\n");
    EXPECT(!capture.OutOfMemory());
    Log(GGML_LOG_LEVEL_ERROR, "x: " + text + "!\n");
    EXPECT(capture.OutOfMemory());
  }
}

TEST(WhatFollowsAnAbortIsADebugLine) {
  std::atomic<bool> abort = false;
  const Lines lines = Received([&] {
    const AbortedLog aborted(abort);
    Log(GGML_LOG_LEVEL_ERROR, "one\n");
    EXPECT(!DemotesErrors());
    abort = true;
    EXPECT(DemotesErrors());
    Log(GGML_LOG_LEVEL_ERROR, "tw");
    Log(GGML_LOG_LEVEL_CONT, "o\n");
    Log(GGML_LOG_LEVEL_WARN, "three\n");
    std::thread([] { Log(GGML_LOG_LEVEL_ERROR, "four\n"); }).join();
  });
  EXPECT(
      (lines == Lines{{"error", "one"}, {"debug", "two"}, {"debug", "three"}, {"error", "four"}}));
  EXPECT(!DemotesErrors());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
