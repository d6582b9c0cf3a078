// Quantizing files: what is written, what is not, and what is refused.
#include "engine/llama/quantize.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "edited_model.h"
#include "folder.h"
#include "log_lines.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

namespace fs = std::filesystem;

// Its tensors are of F16.
std::string Original() { return test::ModelPath("tiny-gemma"); }
// Its tensors are of Q4_0.
std::string Quantized() { return test::ModelPath("tiny-qwen2"); }

TEST(TheOutputIsAModelOfTheType) {
  test::LoadModules();
  const test::Folder folder;
  const std::string output = (folder.path() / "output.gguf").string();
  const auto original = test::LoadTinyModel(Original());
  REQUIRE(original != nullptr);
  const std::string tokens = original->Detokenize({100, 200, 300}, true);
  for (const llama_ftype type : {LLAMA_FTYPE_MOSTLY_Q8_0, LLAMA_FTYPE_MOSTLY_Q4_0}) {
    // The second one overwrites the first.
    const Status status = Quantize({.input = Original(), .output = output, .file_type = type});
    EXPECT_EQ(status.message(), "");
    const auto model = test::LoadTinyModel(output);
    REQUIRE(model != nullptr);
    EXPECT_EQ(llama_model_ftype(model->get()), type);
    EXPECT(llama_model_size(model->get()) < llama_model_size(original->get()));
    EXPECT_EQ(llama_model_n_params(model->get()), llama_model_n_params(original->get()));
    EXPECT_EQ(model->Detokenize({100, 200, 300}, true), tokens);
  }
  EXPECT_EQ(folder.Files().size(), 1U);
}

TEST(EachTensorIsReported) {
  test::LoadModules();
  const test::Folder folder;
  const std::string output = (folder.path() / "output.gguf").string();
  int tensors = 0;
  for (const auto& [level, text] : test::Received([&] {
         EXPECT(
             Quantize({.input = Original(), .output = output, .file_type = LLAMA_FTYPE_MOSTLY_Q8_0})
                 .ok());
       })) {
    if (text.starts_with("[") && text.find("/ ") != std::string::npos) ++tensors;
  }
  EXPECT(tensors > 10);
}

TEST(ADryRunWritesNothing) {
  test::LoadModules();
  const test::Folder folder;
  const std::string output = (folder.path() / "output.gguf").string();
  const test::Lines lines = test::Received([&] {
    EXPECT(Quantize({.input = Original(),
                     .output = output,
                     .file_type = LLAMA_FTYPE_MOSTLY_Q8_0,
                     .dry_run = true})
               .ok());
  });
  EXPECT(!fs::exists(output) || fs::file_size(output) == 0);
  bool tells_size = false;
  for (const auto& [level, text] : lines) {
    tells_size = tells_size || text.find("quant size") != std::string::npos;
  }
  EXPECT(tells_size);
}

TEST(WhatIsQuantizedAlreadyIsQuantizedAgainOnlyIfThatIsAllowed) {
  test::LoadModules();
  const test::Folder folder;
  const std::string output = (folder.path() / "output.gguf").string();
  const auto quantize = [&](bool is_allowed) {
    return Quantize({.input = Quantized(),
                     .output = output,
                     .file_type = LLAMA_FTYPE_MOSTLY_Q8_0,
                     .allow_requantize = is_allowed});
  };
  const Status refused = quantize(false);
  EXPECT_EQ(refused.code(), StatusCode::kModelInvalid);
  EXPECT(refused.message().starts_with("the model cannot be quantised: "));
  EXPECT(refused.message().find("requantizing") != std::string::npos);
  EXPECT(quantize(true).ok());
  EXPECT(test::LoadTinyModel(output) != nullptr);
}

TEST(WhatIsNoModelIsRefusedWithAReason) {
  test::LoadModules();
  const test::Folder folder;
  const std::string text = (folder.path() / "text.gguf").string();
  std::ofstream(text) << "not a model at all, but long enough to be read as a header";
  const auto refusal = [&](const std::string& input, const std::string& output, std::int32_t type) {
    const Status status = Quantize({.input = input, .output = output, .file_type = type});
    EXPECT_EQ(status.code(), StatusCode::kModelInvalid);
    EXPECT(status.message().starts_with("the model cannot be quantised"));
    EXPECT(status.message().find('\n') == std::string::npos);
    return status.message();
  };
  const std::string output = (folder.path() / "output.gguf").string();
  EXPECT(!refusal((folder.path() / "none.gguf").string(), output, LLAMA_FTYPE_MOSTLY_Q8_0).empty());
  EXPECT(!refusal(text, output, LLAMA_FTYPE_MOSTLY_Q8_0).empty());
  // A type that does not exist, and a folder.
  EXPECT(refusal(Original(), output, 9999).find("9999") != std::string::npos);
  EXPECT(
      !refusal(Original(), (folder.path() / "no" / "output.gguf").string(), LLAMA_FTYPE_MOSTLY_Q8_0)
           .empty());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
