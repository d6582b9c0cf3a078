// The sink of all log lines: libllama sends them cut anywhere, and from any thread.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "child_process.h"
#include "engine/llama/devices.h"
#include "folder.h"
#include "ggml.h"
#include "log_lines.h"
#include "models.h"
#include "mtmd.h"
#include "test.h"

namespace svc {
namespace {

using test::Lines;
using test::Log;
using test::Received;

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

TEST(AContinuedLineKeepsTheLevelOfWhatItContinues) {
  const Lines lines = Received([] {
    Log(GGML_LOG_LEVEL_WARN, "one\n");
    Log(GGML_LOG_LEVEL_CONT, "two\n");
    Log(GGML_LOG_LEVEL_NONE, "three\n");
  });
  EXPECT((lines == Lines{{"warn", "one"}, {"warn", "two"}, {"info", "three"}}));
}

TEST(WithoutASinkLinesAreLost) {
  SetLogSink(nullptr);
  Log(GGML_LOG_LEVEL_WARN, "lost\nand the beginning of ");
  EXPECT((Received([] { Log(GGML_LOG_LEVEL_INFO, "another\n"); }) == Lines{{"info", "another"}}));
  EXPECT(Received([] {}).empty());
}

TEST(TheLatestSinkGetsTheLines) {
  Lines first;
  Lines second;
  SetLogSink([&](const char* level, const char* text) { first.emplace_back(level, text); });
  Log(GGML_LOG_LEVEL_INFO, "one\nhalf a ");
  SetLogSink([&](const char* level, const char* text) { second.emplace_back(level, text); });
  Log(GGML_LOG_LEVEL_INFO, "two\n");
  SetLogSink(nullptr);
  EXPECT((first == Lines{{"info", "one"}}));
  EXPECT((second == Lines{{"info", "two"}}));
}

TEST(ThreadsSendOneLineAtATime) {
  constexpr int kLines = 1'000;
  std::atomic<int> inside = 0;
  int received = 0;
  SetLogSink([&](const char*, const char* text) {
    EXPECT_EQ(++inside, 1);
    EXPECT_EQ(std::string(text), "a line");
    ++received;
    --inside;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < kLines; ++line) Log(GGML_LOG_LEVEL_INFO, "a line\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  SetLogSink(nullptr);
  EXPECT_EQ(received, 3 * kLines);
}

// libllama's own lines, and those of ggml below it.
TEST(WhatALoadLogsComesWhole) {
  const Lines lines = Received([] {
    EXPECT(LoadBackends(SVC_TEST_MODULES).ok());
    EXPECT(LlamaModel::Load({.path = test::TinyModels()[0]}).ok());
  });
  EXPECT(lines.size() > 10);
  for (const auto& [level, text] : lines) {
    EXPECT(level == "debug" || level == "info" || level == "warn" || level == "error");
    EXPECT(text.find('\n') == std::string::npos && !text.empty());
  }
}

TEST(LibmtmdSendsItsLinesToo) {
  // It cannot read this file.
  const Lines lines = Received([] {
    mtmd_context_params params = mtmd_context_params_default();
    params.use_gpu = false;
    (void)mtmd_get_memory_usage((test::TinyModels()[0]).c_str(), params);
  });
  EXPECT(!lines.empty());
}

TEST(AnAbortTellsTheErrorsBeforeIt) {
  const test::Folder folder;
  const std::string path = folder.path() / "stderr";
  const std::string end = test::EndOfChild([&] {
    EXPECT(std::freopen(path.c_str(), "w", stderr) != nullptr);
    std::setvbuf(stderr, nullptr, _IONBF, 0);  // as it was
    SetLogSink([](const char*, const char*) {});
    for (const char* line : {"too old", "CUDA error: none", "  in a function", "  a call"}) {
      Log(GGML_LOG_LEVEL_ERROR, std::string(line) + "\n");
    }
    Log(GGML_LOG_LEVEL_INFO, "no error\n");
    ggml_abort("file.cu", 108, "CUDA error");
  });
  EXPECT_EQ(end, "signal " + std::to_string(SIGABRT));
  std::string told;
  std::ifstream stream(path);
  std::getline(stream, told);
  EXPECT_EQ(told, "CUDA error: none;   in a function;   a call; file.cu:108: CUDA error");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
