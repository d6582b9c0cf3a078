// Loading a file: what is refused, what the model tells of itself, and its texts of tokens.
#include "engine/llama/llama_model.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edited_model.h"
#include "folder.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::ModelPath;

std::unique_ptr<LlamaModel> Load(const std::string& name) {
  return test::LoadTinyModel(ModelPath(name));
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The metadata of a copy of tiny-llama, with changes.
template <typename Edit>
std::unique_ptr<LlamaModel> Edited(const test::Folder& folder, const std::string& name, Edit edit) {
  test::LoadModules();
  Result<std::unique_ptr<LlamaModel>> model = LlamaModel::LoadMetadata(
      {.path = test::EditedModel(folder, name, ModelPath("tiny-llama"), edit)});
  if (model.ok()) return std::move(model.value());
  test::Fail(__FILE__, __LINE__, name + ": " + model.status().message());
  return nullptr;
}

// ---- loading ------------------------------------------------------------------------------------

TEST(FilesAreCheckedBeforeTheyAreRead) {
  test::LoadModules();
  const test::Folder folder;
  const std::string path = (folder.path() / "file").string();
  const auto refusal = [](const std::string& of) {
    const Status loaded = LlamaModel::Load({.path = of}).status();
    const Status metadata = LlamaModel::LoadMetadata({.path = of}).status();
    EXPECT_EQ(loaded.code(), StatusCode::kModelInvalid);
    EXPECT_EQ(metadata.message(), loaded.message());
    return loaded.message();
  };
  EXPECT_EQ(refusal(path), path + " does not exist");
  EXPECT_EQ(refusal(""), " does not exist");
  EXPECT_EQ(refusal(folder.path().string()),
            folder.path().string() + " is a directory, not a GGUF file");
  for (const char* bytes : {"", "GGU", "GGML, but longer", "gguf"}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_EQ(refusal(path), path + " is not a GGUF file");
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << "GGUF and nothing else";
  EXPECT(refusal(path).starts_with(path + " cannot be loaded: "));
}

TEST(ModelsThatDoNotWriteTokenByTokenAreRefused) {
  test::LoadModules();
  const test::Folder folder;
  const std::string path =
      test::EditedModel(folder, "none", ModelPath("tiny-llama"), [](gguf_context* file) {
        gguf_set_val_str(file, "tokenizer.ggml.model", "none");
        gguf_set_val_u32(file, "llama.vocab_size", 32'000);
      });
  const Status status = LlamaModel::LoadMetadata({.path = path}).status();
  EXPECT_EQ(status.code(), StatusCode::kModelInvalid);
  EXPECT(Has(status.message(), path));
}

TEST(MetadataAreLoadedWithoutTheWeights) {
  test::LoadModules();
  const auto model = LlamaModel::LoadMetadata({.path = ModelPath("tiny-qwen2")});
  REQUIRE(model.ok());
  const auto whole = Load("tiny-qwen2");
  REQUIRE(whole != nullptr);
  const ModelInfo info = model.value()->Describe();
  const ModelInfo expected = whole->Describe();
  EXPECT_EQ(info.layers, expected.layers);
  EXPECT_EQ(info.size_bytes, expected.size_bytes);
  EXPECT(model.value()->Tokenize("some text", true, false).value() ==
         whole->Tokenize("some text", true, false).value());
}

TEST(ALoadCanBeCancelled) {
  test::LoadModules();
  const auto cancelled = [](float at) {
    return LlamaModel::Load({.path = ModelPath("tiny-llama"),
                             .on_progress = [=](float part) { return part < at; }})
        .status()
        .code();
  };
  EXPECT_EQ(cancelled(0), StatusCode::kCancelled);
  EXPECT_EQ(cancelled(0.5F), StatusCode::kCancelled);
  EXPECT_EQ(cancelled(2), StatusCode::kOk);
}

// ---- what it is ---------------------------------------------------------------------------------

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
  const auto model = Load("tiny-qwen2");
  REQUIRE(model != nullptr);
  const std::string path = ModelPath("tiny-qwen2");
  EXPECT(ResidentOf(path) < std::filesystem::file_size(path) / 4);
}
#endif

TEST(EachKindOfModelIsKnown) {
  const auto is = [](const std::string& name) {
    const auto model = Load(name);
    if (model == nullptr) return std::string("none");
    return std::string(model->is_recurrent() ? "recurrent" : "") +
           (model->has_experts() ? "experts" : "");
  };
  EXPECT_EQ(is("tiny-llama"), "");
  EXPECT_EQ(is("tiny-gemma3"), "");
  EXPECT_EQ(is("tiny-gpt-oss"), "experts");
  EXPECT_EQ(is("tiny-mamba"), "recurrent");
  EXPECT_EQ(is("tiny-lfm2"), "recurrent");  // in some layers
}

TEST(PositionsTurnWhereTheFileHasFactorsForMore) {
  const test::Folder folder;
  const auto plain = Load("tiny-llama");
  REQUIRE(plain != nullptr);
  EXPECT(!plain->turning_length().has_value());
  const auto scaled = [&](const char* type) {
    return Edited(folder, type, [&](gguf_context* file) {
      gguf_set_val_u32(file, "llama.rope.scaling.original_context_length", 4096);
      gguf_set_val_str(file, "llama.rope.scaling.type", type);
    });
  };
  const auto turning = scaled("longrope");
  const auto yarn = scaled("yarn");
  REQUIRE(turning != nullptr && yarn != nullptr);
  EXPECT_EQ(turning->turning_length().value_or(0), 4096U);
  EXPECT(!yarn->turning_length().has_value());
}

TEST(ItDescribesItsFile) {
  const auto model = Load("tiny-gemma");
  REQUIRE(model != nullptr);
  const ModelInfo info = model->Describe();
  EXPECT_EQ(info.layers, 2U);
  EXPECT_EQ(info.trained_context_length, 8192U);
  EXPECT_EQ(info.vocabulary, static_cast<std::uint32_t>(llama_vocab_n_tokens(model->vocab())));
  EXPECT_EQ(info.size_bytes, llama_model_size(model->get()));
  EXPECT(info.embedding_length > 0);
  EXPECT_EQ(info.device, "CPU");
  EXPECT_EQ(model->device(), "CPU");
  EXPECT_EQ(info.context_length, 0U);
  EXPECT_EQ(info.threads, 0);
}

TEST(TheFilesSamplingDefaultsAreTakenWithinTheirBounds) {
  const test::Folder folder;
  const SamplingParams defaults;
  const auto sampling = [&](const std::string& name, auto edit) {
    const auto model = Edited(folder, name, edit);
    return model == nullptr ? SamplingParams() : model->Describe().sampling;
  };
  const SamplingParams set = sampling("set", [](gguf_context* file) {
    gguf_set_val_f32(file, "general.sampling.temp", 0.25F);
    gguf_set_val_i32(file, "general.sampling.top_k", 7);
    gguf_set_val_f32(file, "general.sampling.top_p", 0.5F);
    gguf_set_val_f32(file, "general.sampling.min_p", 0.125F);
    gguf_set_val_f32(file, "general.sampling.xtc_probability", 0.5F);
    gguf_set_val_f32(file, "general.sampling.xtc_threshold", 0.25F);
    gguf_set_val_i32(file, "general.sampling.mirostat", 2);
    gguf_set_val_f32(file, "general.sampling.mirostat_tau", 3.0F);
    gguf_set_val_f32(file, "general.sampling.mirostat_eta", 0.5F);
    gguf_set_val_i32(file, "general.sampling.penalty_last_n", 99);
    gguf_set_val_f32(file, "general.sampling.penalty_repeat", 1.5F);
  });
  EXPECT(set.temperature == 0.25F && set.top_k == 7 && set.top_p == 0.5F && set.min_p == 0.125F);
  EXPECT(set.xtc_probability == 0.5F && set.xtc_threshold == 0.25F && set.mirostat == 2);
  EXPECT(set.mirostat_tau == 3.0F && set.mirostat_eta == 0.5F);
  EXPECT(set.repeat_last_n == 99 && set.repeat_penalty == 1.5F);
  const SamplingParams wrong = sampling("wrong", [](gguf_context* file) {
    gguf_set_val_f32(file, "general.sampling.temp", -1.0F);
    gguf_set_val_i32(file, "general.sampling.top_k", -1);
    gguf_set_val_f32(file, "general.sampling.top_p", 1.5F);
    gguf_set_val_str(file, "general.sampling.min_p", "much");
    gguf_set_val_i32(file, "general.sampling.mirostat", 3);
    gguf_set_val_i32(file, "general.sampling.penalty_last_n", 65'537);
    gguf_set_val_f32(file, "general.sampling.penalty_repeat", 0.0F);
  });
  EXPECT(wrong.temperature == defaults.temperature && wrong.top_k == defaults.top_k);
  EXPECT(wrong.top_p == defaults.top_p && wrong.min_p == defaults.min_p);
  EXPECT(wrong.mirostat == defaults.mirostat && wrong.repeat_last_n == defaults.repeat_last_n);
  EXPECT_EQ(wrong.repeat_penalty, defaults.repeat_penalty);
}

// ---- tokens -------------------------------------------------------------------------------------

TEST(TheTextOfTokensIsThatOfTheirPieces) {
  for (const std::string& path : test::TinyModels()) {
    const auto model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    const std::string text = "Some text, Grüße, 你好 and 😀.";
    const std::vector<Token> tokens = model->Tokenize(text, false, false).value();
    std::string pieces;
    for (const Token token : tokens) pieces += model->Piece(token, /*special=*/false);
    EXPECT(pieces == text || pieces == " " + text);
    EXPECT(Has(model->Detokenize(tokens, false), text));
    EXPECT_EQ(model->Detokenize({}, true), "");
  }
}

TEST(ControlTokensHaveATextOnlyWhereItIsAskedFor) {
  const auto model = Load("tiny-qwen2");
  REQUIRE(model != nullptr);
  const std::vector<Token> tokens = model->Tokenize("<|im_end|>", false, true).value();
  REQUIRE(tokens.size() == 1);
  EXPECT_EQ(model->Piece(tokens[0], true), "<|im_end|>");
  EXPECT_EQ(model->Piece(tokens[0], false), "");
  EXPECT_EQ(model->Detokenize({tokens[0], tokens[0]}, true), "<|im_end|><|im_end|>");
  EXPECT_EQ(model->Detokenize(tokens, false), "");
  EXPECT(model->Tokenize("<|im_end|>", false, false).value().size() > 1);
}

// Longer than the buffer that is tried first.
TEST(LongPiecesAreWhole) {
  const auto model = Load("tiny-qwen2");
  REQUIRE(model != nullptr);
  std::size_t longest = 0;
  for (Token token = 0; token < llama_vocab_n_tokens(model->vocab()); ++token) {
    const std::size_t size = model->Piece(token, true).size();
    if (size <= longest) continue;
    longest = size;
    EXPECT_EQ(model->Detokenize({token}, true).size(), size);
  }
  EXPECT(longest > 64);
}

TEST(APromptThatIsTooLongIsToldByBothNumbers) {
  const Status status =
      LlamaModel::TooLong({.prompt_tokens = 77, .is_minimum = true, .context_length = 64});
  EXPECT_EQ(status.code(), StatusCode::kContextOverflow);
  EXPECT(Has(status.message(), "at least 77 tokens") && Has(status.message(), "context of 64"));
  REQUIRE(status.overflow().has_value());
  EXPECT_EQ(status.overflow()->prompt_tokens, 77U);
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const std::string text(100'000, 'a');
  EXPECT_EQ(model->Tokenize(text, true, false, 16).status().code(), StatusCode::kContextOverflow);
  EXPECT(model->Tokenize(text, true, false, 0).ok());
  EXPECT(model->Tokenize("a", true, false, 16).ok());
}

TEST(ATextThatIsTooLargeIsRefused) {
  const auto model = Load("tiny-llama");
  REQUIRE(model != nullptr);
  const Status status =
      model->Tokenize(std::string((std::size_t{8} << 20U) + 1, ' '), true, false).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidRequest);
  EXPECT(Has(status.message(), "8388609 bytes is too long"));
  // An error of the context's size comes first: its message tells what helps.
  EXPECT_EQ(
      model->Tokenize(std::string(std::size_t{9} << 20U, ' '), true, false, 16).status().code(),
      StatusCode::kContextOverflow);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
