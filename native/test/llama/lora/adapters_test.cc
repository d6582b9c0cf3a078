// Files of LoRA adapters: which can be used, and what damaged ones are refused for.
#include "engine/llama/lora/adapters.h"

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include "folder.h"
#include "gguf.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::Folder;

std::string AdapterPath(const std::string& name) { return test::ModelPath("adapters/" + name); }

const std::string kModel = test::TinyModels()[0];

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ErrorOf(llama_model* model, const std::string& path) {
  return Adapters(model, kModel, {{.id = "a", .path = path}}).infos().front().error;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AnAdapterOfTheModelCanBeUsed) {
  const auto model = test::LoadTinyModel(kModel);
  REQUIRE(model != nullptr);
  const Adapters adapters(model->get(), kModel,
                          {{.id = "a", .path = AdapterPath("llama-attention")},
                           {.id = "b", .path = AdapterPath("qwen2")},
                           {.id = "c", .path = AdapterPath("llama-forward")}});
  REQUIRE(adapters.infos().size() == 3 && adapters.handles().size() == 3);
  EXPECT_EQ(adapters.infos()[0].error, "");
  EXPECT_EQ(adapters.infos()[2].error, "");
  EXPECT(adapters.handles()[0] != nullptr && adapters.handles()[1] == nullptr);

  const AdapterSet both = {{.index = 0, .scale = 0.5F}, {.index = 2, .scale = -1}};
  EXPECT(adapters.Choose({{"c", -1}, {"a", 0.5F}}).value() == both);
  EXPECT(adapters.Choose({}).value().empty());
  // An adapter with scale 0 is ignored, even if it is unknown or repeated.
  EXPECT(adapters.Choose({{"a", 0}, {"nobody", 0}, {"b", 0}, {"a", -0.0F}}).value().empty());
  EXPECT_EQ(adapters.Choose({{"a", 0}, {"a", 1}}).value().size(), 1U);
}

TEST(AWrongChoiceIsRefusedByName) {
  const auto model = test::LoadTinyModel(kModel);
  REQUIRE(model != nullptr);
  const Adapters adapters(model->get(), kModel,
                          {{.id = "a", .path = AdapterPath("llama-attention")},
                           {.id = "b", .path = AdapterPath("qwen2")}});
  const std::vector<std::pair<std::vector<AdapterWish>, std::string>> cases = {
      {{{"nobody", 1}}, "no adapter \"nobody\""},
      {{{"a", 1}, {"a", 0.5F}}, "\"a\" is listed twice"},
      {{{"a", NAN}}, "finite number"},
      {{{"a", INFINITY}}, "finite number"},
      {{{"b", 1}}, "another base model"},
  };
  for (const auto& [wishes, part] : cases) {
    const Result<AdapterSet> set = adapters.Choose(wishes);
    EXPECT_EQ(set.status().code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(set.status().param(), "lora");
    EXPECT(Contains(set.status().message(), part));
  }
}

TEST(AFileThatIsNoAdapterOfTheModelIsNamedAsWhatItIs) {
  const auto model = test::LoadTinyModel(kModel);
  REQUIRE(model != nullptr);
  const Folder folder;
  const std::string good = BytesOf(AdapterPath("llama-attention"));
  const auto error_of = [&](const std::string& bytes) {
    const std::string path = folder.path() / "adapter.gguf";
    Write(path, bytes);
    return ErrorOf(model->get(), path);
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const std::size_t at = bytes.find(from);
    return at == std::string::npos ? "" : bytes.replace(at, from.size(), to);
  };
  EXPECT_EQ(error_of(good), "");
  EXPECT(Contains(ErrorOf(model->get(), folder.path() / "none.gguf"), "is missing"));
  EXPECT(Contains(ErrorOf(model->get(), folder.path()), "is missing"));
  EXPECT(Contains(ErrorOf(model->get(), kModel), "not an adapter"));
  EXPECT(Contains(error_of(""), "not a GGUF file"));
  EXPECT(Contains(error_of("Hello, I am text."), "not a GGUF file"));
  EXPECT(Contains(error_of(good.substr(0, 300)), "damaged"));
  EXPECT(Contains(error_of(good.substr(0, good.size() - 1)), "ends inside the tensor"));
  EXPECT(Contains(error_of(replaced("lora\x12", "dora\x12")), "not a LoRA adapter"));
  EXPECT(Contains(error_of(replaced("blk.1.attn_q.weight.lora_a", "blk.7.attn_q.weight.lora_a")),
                  "damaged"));
  EXPECT(Contains(error_of(replaced("lora_a", "lora_c")), "unknown tensor"));
  // A pair for a weight that the model has not.
  std::string bytes = replaced("blk.1.attn_q.weight.lora_a", "blk.7.attn_q.weight.lora_a");
  const std::string up = "blk.1.attn_q.weight.lora_b";
  bytes.replace(bytes.find(up), up.size(), "blk.7.attn_q.weight.lora_b");
  EXPECT(Contains(error_of(bytes), "another base model"));
  EXPECT(Contains(ErrorOf(model->get(), AdapterPath("gemma3")), "\"gemma3\""));
}

using Shape = std::array<std::int64_t, 4>;

// Writes an adapter for tiny-llama that corrects one weight, by zeros.
void WritePair(const std::string& path, const std::string& weight, const Shape& down,
               const Shape& up, ggml_type type = GGML_TYPE_F32) {
  ggml_context* const tensors =
      ggml_init({.mem_size = 16U << 20U, .mem_buffer = nullptr, .no_alloc = false});
  gguf_context* const file = gguf_init_empty();
  gguf_set_val_str(file, "general.architecture", "llama");
  gguf_set_val_str(file, "general.type", "adapter");
  gguf_set_val_str(file, "adapter.type", "lora");
  gguf_set_val_f32(file, "adapter.lora.alpha", 8);
  for (const auto& [end, shape] : {std::pair(".lora_a", down), std::pair(".lora_b", up)}) {
    ggml_tensor* const tensor = ggml_new_tensor(tensors, type, 4, shape.data());
    ggml_set_zero(tensor);
    ggml_set_name(tensor, (weight + end).c_str());
    gguf_add_tensor(file, tensor);
  }
  gguf_write_to_file(file, path.c_str(), /*only_meta=*/false);
  gguf_free(file);
  ggml_free(tensors);
}

// With each of these libllama loads the adapter and ends the process at the first step.
TEST(TensorsThatCannotBeMultipliedAreRefused) {
  const auto model = test::LoadTinyModel(kModel);
  REQUIRE(model != nullptr);
  const Folder folder;
  const std::string path = folder.path() / "adapter.gguf";
  const auto error_of = [&](const auto&... pair) {
    WritePair(path, pair...);
    return ErrorOf(model->get(), path);
  };
  const std::string query = "blk.0.attn_q.weight";
  const Shape down = {128, 4, 1, 1};
  const Shape up = {4, 128, 1, 1};
  EXPECT_EQ(error_of(query, down, up), "");
  EXPECT(Contains(error_of(query, Shape{128, 4, 2, 1}, Shape{4, 128, 2, 1}), "do not fit"));
  EXPECT(Contains(error_of(query, Shape{128, 4, 1, 3}, Shape{4, 128, 1, 3}), "do not fit"));
  EXPECT(Contains(error_of(query, Shape{128, 8, 1, 1}, up), "do not fit"));
  EXPECT(Contains(error_of(query, down, up, GGML_TYPE_I32), "do not fit"));
  EXPECT(Contains(error_of("blk.0.ffn_up_exps.weight", down, up), "do not fit"));
  EXPECT(Contains(error_of("blk.0.ffn_up_chexps.weight", down, up), "do not fit"));
  const Shape rows = {4, llama_vocab_n_tokens(model->vocab()), 1, 1};
  EXPECT(Contains(error_of("token_embd.weight", rows, up), "token embeddings"));
  EXPECT(Contains(error_of(query, Shape{64, 4, 1, 1}, up), "another base model"));
}

// Each byte of the header, changed in several ways: the file is refused or can be computed with.
TEST(NoDamageOfTheHeaderEndsTheProcess) {
  const auto model = test::LoadTinyModel(kModel);
  REQUIRE(model != nullptr);
  const Folder folder;
  const std::string path = folder.path() / "adapter.gguf";
  const std::string good = BytesOf(AdapterPath("llama-attention"));
  const std::size_t header = good.rfind(".lora_b") + 64;
  int used = 0;
  for (std::size_t at = 0; at < header; at += test::kSanitized ? 7 : 1) {
    for (const char change : {'\x01', '\x04', '\x80', '\xFF'}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      Write(path, bytes);
      const Adapters adapters(model->get(), kModel, {{.id = "a", .path = path}});
      llama_adapter_lora* const adapter = adapters.handles().front();
      if (adapter == nullptr) continue;
      // Names and descriptions may be anything; what remains must compute. Not each time: that
      // takes long.
      if (++used % 50 == 0) {
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 64;
        llama_context* const context = llama_init_from_model(model->get(), params);
        UseAdapters(context, adapters.handles(), {{.index = 0, .scale = 1}});
        std::vector<llama_token> tokens = {1, 2, 3};
        EXPECT_EQ(llama_decode(context, llama_batch_get_one(tokens.data(), 3)), 0);
        llama_free(context);
      }
      llama_adapter_lora_free(adapter);
    }
  }
  EXPECT(used > 50);
}

TEST(TheMemoryOfAnAdapterIsThatOfItsTensors) {
  const AdapterMemory memory = AdapterMemoryOf(AdapterPath("llama-attention"));
  // attn_q and attn_v of two layers with rank 4, in F32: 128 inputs, 128 and 64 outputs.
  EXPECT_EQ(memory.weights_bytes, 2U * 4 * 4 * (128 + 128 + 128 + 64));
  EXPECT_EQ(memory.widest_rows, 128U);
  EXPECT_EQ(memory.output_width, 0U);
  EXPECT_EQ(AdapterMemoryOf("/none").weights_bytes, 0U);
  EXPECT_EQ(AdapterMemoryOf(AdapterPath("llama-forward")).widest_rows, 384U);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
