// Log lines as libllama sends them: which are captured as the reason of a failure, and which get a
// lower level after a batch was aborted.
#include "engine/llama/log_capture.h"

#include <atomic>
#include <string>
#include <thread>

#include "engine/llama/devices.h"
#include "log_lines.h"
#include "test.h"

namespace svc {
namespace {

using test::Lines;
using test::Log;
using test::Received;

std::string ReasonOf(const std::string& text) {
  const LogCapture capture;
  Log(GGML_LOG_LEVEL_ERROR, text);
  return capture.Reason();
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

TEST(AFailureHasTheReason) {
  SetLogSink(nullptr);
  const LogCapture capture;
  const Status without_reason = capture.Failure("cannot do it");
  EXPECT(without_reason.code() == StatusCode::kModelInvalid);
  EXPECT_EQ(without_reason.message(), "cannot do it: libllama gave no reason");
  Log(GGML_LOG_LEVEL_ERROR, "make: out of memory\n");
  EXPECT(capture.Failure("cannot do it").code() == StatusCode::kOutOfMemory);
  EXPECT_EQ(capture.Failure("cannot do it").message(), "cannot do it: out of memory");
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
