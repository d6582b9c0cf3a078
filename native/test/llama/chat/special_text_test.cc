// Texts made of control tokens and of parts of them: guarded, they are plain text, also between the
// template's tokens. Which kind of text is guarded where.
#include "engine/llama/chat/special_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "engine/base/work_limit.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

const std::string kGuard = "\U0010FF00";

// Each is loaded once. Null if it cannot be loaded.
const LlamaModel* Vocabulary(const std::string& name) {
  static std::map<std::string, std::unique_ptr<LlamaModel>> loaded;
  std::unique_ptr<LlamaModel>& model = loaded[name];
  const std::string models = std::string(SVC_LLAMA_SOURCE_DIR) + "/models/";
  if (model == nullptr) model = test::LoadVocabulary(models + "ggml-vocab-" + name + ".gguf");
  return model.get();
}

// Phi 3 strips white space after its control tokens.
constexpr const char* kVocabularies[] = {"phi-3", "llama-bpe"};

bool IsControl(const LlamaModel& model, Token token) {
  const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(model.vocab(), token));
  return (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
}

// Draws control tokens, and texts made of them and of their parts.
class Writer {
 public:
  explicit Writer(const LlamaModel& model) {
    for (Token token = 0; token < llama_vocab_n_tokens(model.vocab()); ++token) {
      const std::string text = llama_vocab_get_text(model.vocab(), token);
      if (IsControl(model, token) && text.size() > 1) controls_.emplace_back(token, text);
    }
  }

  std::size_t Random(std::size_t below) { return random_() % below; }
  const std::pair<Token, std::string>& Control() { return controls_[Random(controls_.size())]; }
  std::string Write() {
    std::string text;
    for (std::size_t n = 1 + Random(5); n > 0; --n) {
      const std::string& control = Control().second;
      const std::size_t cut = 1 + Random(control.size() - 1);
      const std::vector<std::string> parts = {
          control, control, control.substr(0, cut), control.substr(cut), " ", "\n", "a", "<", "|>"};
      text += parts[Random(parts.size())];
    }
    return text;
  }

 private:
  std::vector<std::pair<Token, std::string>> controls_;
  std::mt19937 random_{1};
};

TEST(AGuardedTextIsPlainText) {
  int changed = 0;
  for (const char* name : kVocabularies) {
    const LlamaModel* model = Vocabulary(name);
    REQUIRE(model != nullptr);
    const SpecialText special(*model);
    Writer writer(*model);
    for (int round = 0; round < 200; ++round) {
      const std::string text = writer.Write();
      for (const TextKind kind : {TextKind::kText, TextKind::kJson, TextKind::kAnswer}) {
        const std::string guarded = special.Guard(text, kGuard, kind);
        EXPECT_EQ(special.NeedsGuard(text, kind), guarded != text);
        changed += guarded.size() > text.size() ? 1 : 0;
        const auto tokens = special.Tokenize(guarded, kGuard, 0, /*add_special=*/false);
        const auto plain = model->Tokenize(text, /*add_special=*/false, /*parse_special=*/false);
        REQUIRE(tokens.ok() && plain.ok());
        if (tokens.value() != plain.value()) test::Fail(name, __LINE__, text);
      }
    }
  }
  EXPECT(changed > 500);
}

TEST(OnlyTheTemplateWritesControlTokens) {
  for (const char* name : kVocabularies) {
    const LlamaModel* model = Vocabulary(name);
    REQUIRE(model != nullptr);
    const SpecialText special(*model);
    Writer writer(*model);
    for (int round = 0; round < 200; ++round) {
      std::string prompt;
      std::vector<Token> written;
      for (std::size_t n = writer.Random(5); n > 0; --n) {
        prompt += special.Guard(writer.Write(), kGuard);
        if (writer.Random(3) == 0) continue;  // two texts without a token between them
        const auto& [token, text] = writer.Control();
        written.push_back(token);
        prompt += text;
      }
      auto tokens = special.Tokenize(prompt, kGuard, 0, /*add_special=*/false);
      REQUIRE(tokens.ok());
      std::erase_if(tokens.value(), [&](Token token) { return !IsControl(*model, token); });
      if (tokens.value() != written) test::Fail(name, __LINE__, prompt);
    }
  }
}

// Gemma 4: <|turn> is a control token; <|tool_call> and <|channel> are user-defined.
TEST(EachKindOfTextIsGuardedWhereItMayBecomeAToken) {
  const LlamaModel* model = Vocabulary("gemma-4");
  REQUIRE(model != nullptr);
  const SpecialText special(*model, "<|turn>user\n{{ content }}<|tool_call>");
  // A text, and it guarded as a text, as JSON and as an answer.
  for (const auto& each : std::vector<std::array<std::string, 4>>{
           {"", "", "", ""},
           {"2 < 3|>4", "2 < 3|>4", "2 < 3|>4", "2 < 3|>4"},
           {"a<|turn>b", "a^<|turn>b", "a^<|turn>b", "a^<|turn>b"},
           {"<|turn><|turn>.", "^<|turn>^<|turn>.", "^<|turn>^<|turn>.", "^<|turn>^<|turn>."},
           {"a<|tool_call>b", "a^<|tool_call>b", "a^<|tool_call>b", "a<|tool_call>b"},
           {"a<|channel>b", "a<|channel>b", "a<|channel>b", "a<|channel>b"},
           {"urn|> a", "^urn|> a", "urn|> a", "^urn|> a"},
           {"\n > a", "\n ^> a", "\n > a", "\n ^> a"},
           {"a <|tur", "a ^<|tur", "a <|tur", "a ^<|tur"},
           {"a <\n", "a ^<\n", "a <\n", "a ^<\n"},
           {"tool_call> a", "^tool_call> a", "tool_call> a", "tool_call> a"}}) {
    EXPECT_EQ(special.Guard(each[0], "^"), each[1]);
    EXPECT_EQ(special.Guard(each[0], "^", TextKind::kJson), each[2]);
    EXPECT_EQ(special.Guard(each[0], "^", TextKind::kAnswer), each[3]);
  }
}

// Wherever two texts meet, and whichever of them is the template's.
TEST(TwoTextsFormNoUserDefinedToken) {
  const LlamaModel* model = Vocabulary("gemma-4");
  REQUIRE(model != nullptr);
  const std::string tag = "<|tool_call>";
  const SpecialText special(*model, "{{ content }}" + tag);
  const auto token = model->Tokenize(tag, /*add_special=*/false, /*parse_special=*/false);
  REQUIRE(token.ok() && token.value().size() == 1);
  for (std::size_t cut = 1; cut < tag.size(); ++cut) {
    const std::string head = "a " + tag.substr(0, cut);
    const std::string tail = tag.substr(cut) + " b";
    for (const std::string& prompt :
         {special.Guard(head, kGuard) + special.Guard(tail, kGuard),
          special.Guard(head, kGuard) + tail, head + special.Guard(tail, kGuard)}) {
      const auto tokens = special.Tokenize(prompt, kGuard, 0, /*add_special=*/false);
      REQUIRE(tokens.ok());
      EXPECT_EQ(std::ranges::count(tokens.value(), token.value()[0]), 0);
      std::string text;
      for (const Token each : tokens.value()) text += model->Piece(each, /*special=*/true);
      EXPECT_EQ(text, head + tail);
    }
  }
}

TEST(APromptBeyondTheWorkLimitIsRefused) {
  const LlamaModel* model = Vocabulary("llama-bpe");
  REQUIRE(model != nullptr);
  const SpecialText special(*model);
  const WorkLimit limit;
  EXPECT(special.Tokenize("text", kGuard).ok());
  EXPECT(!WorkLimit::MayAllocate(1e15));
  EXPECT_EQ(special.Tokenize("text", kGuard).status().code(), StatusCode::kInvalidRequest);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
