// Tokenization, compared with llama.cpp's expected tokens for every vocabulary that has them; and
// guarded text, which must never become a control token.
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

#include "engine/llama/chat/special_text.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (;;) {
    const auto next = text.find(separator, at);
    parts.push_back(text.substr(at, next - at));
    if (next == std::string::npos) return parts;
    at = next + separator.size();
  }
}

std::string NameOf(const std::string& path) { return std::filesystem::path(path).stem().string(); }

bool IsControl(const LlamaModel& model, Token token) {
  const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(model.vocab(), token));
  return (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
}

std::vector<Token> ControlTokens(const LlamaModel& model) {
  std::vector<Token> tokens;
  for (Token token = 0; token < llama_vocab_n_tokens(model.vocab()); ++token) {
    if (IsControl(model, token) && *llama_vocab_get_text(model.vocab(), token) != '\0') {
      tokens.push_back(token);
    }
  }
  return tokens;
}

// True if tokens are slices of the text that together cover it.
bool TokensAreSlices(const LlamaModel& model) {
  const enum llama_vocab_type type = llama_vocab_type(model.vocab());
  return type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_BPE;
}

// True for vocabularies of models that generate text; bert's adds [CLS] and [SEP].
bool Generates(const std::string& path) { return path.find("bert") == std::string::npos; }

TEST(AllExpectedTokensMatch) {
  int vocabularies = 0;
  int texts = 0;
  for (const std::string& path : test::Vocabularies()) {
    const std::string input = ReadFile(path + ".inp");
    if (input.empty()) continue;
    const std::unique_ptr<LlamaModel> model = test::LoadVocabulary(path);
    REQUIRE(model != nullptr);
    std::vector<std::string> inputs = SplitAt(input, "\n__ggml_vocab_test__\n");
    if (inputs.back().empty()) inputs.pop_back();  // each text ends with the separator
    std::istringstream expectations(ReadFile(path + ".out"));
    std::string line;
    std::size_t i = 0;
    int wrong = 0;
    for (; std::getline(expectations, line); ++i) {
      REQUIRE(i < inputs.size());
      std::istringstream numbers(line);
      const std::vector<Token> expected{std::istream_iterator<Token>(numbers), {}};
      const Result<std::vector<Token>> tokens = model->Tokenize(inputs[i], false, false);
      REQUIRE(tokens.ok());
      wrong += tokens.value() == expected ? 0 : 1;
    }
    if (wrong > 0)
      test::Fail(__FILE__, __LINE__, NameOf(path) + ": " + std::to_string(wrong) + " texts differ");
    EXPECT_EQ(i, inputs.size());
    ++vocabularies;
    texts += static_cast<int>(i);
  }
  std::printf("     %d vocabularies, %d texts\n", vocabularies, texts);
  EXPECT(vocabularies == 15 || (test::kSanitized && vocabularies >= 3));
}

TEST(WhatIsTooLongByItsBytesAloneIsRefusedUntokenizedAndNothingElse) {
  int bounded = 0;
  for (const std::string& path : test::Vocabularies()) {
    const std::unique_ptr<LlamaModel> model = test::LoadVocabulary(path);
    REQUIRE(model != nullptr);
    std::vector<std::string> texts = SplitAt(ReadFile(path + ".inp"), "\n__ggml_vocab_test__\n");
    // The text with the most bytes per token: the longest token, repeated.
    std::string longest;
    for (Token token = 0; token < llama_vocab_n_tokens(model->vocab()); ++token) {
      std::string piece = model->Piece(token, true);
      if (piece.size() > longest.size()) longest = std::move(piece);
    }
    std::string& dense = texts.emplace_back();
    for (int i = 0; i < 64; ++i) dense += longest;

    for (const std::string& text : texts) {
      const Result<std::vector<Token>> all = model->Tokenize(text, false, true);
      if (!all.ok()) continue;
      const auto enough = static_cast<std::uint32_t>(all.value().size() + 1);
      const Result<std::vector<Token>> fitting = model->Tokenize(text, false, true, enough);
      REQUIRE(fitting.ok());
      EXPECT(fitting.value() == all.value());
    }

    const Result<std::vector<Token>> refused =
        model->Tokenize(std::string(1 << 16, 'x'), false, true, /*context_length=*/16);
    if (refused.ok()) {
      EXPECT(!TokensAreSlices(*model));
      continue;
    }
    ++bounded;
    EXPECT_EQ(refused.status().code(), StatusCode::kContextOverflow);
    const std::size_t least = ((1 << 16) + longest.size() - 1) / longest.size();
    EXPECT(refused.status().message().find("at least " + std::to_string(least) + " tokens") !=
           std::string::npos);
    EXPECT(refused.status().message().find("the context of 16 has room for 15 ") !=
           std::string::npos);
  }
  EXPECT(bounded > (test::kSanitized ? 1 : 5));
}

TEST(DetokenizingGivesTheTextBack) {
  for (const std::string& path : test::TinyModels()) {
    const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(path);
    REQUIRE(model != nullptr);
    for (const std::string text :
         {"Hello, world", "na\u00EFve \U0001F600 \u4F60\u597D", "a  b\n\tc"}) {
      const Result<std::vector<Token>> tokens = model->Tokenize(text, false, false);
      REQUIRE(tokens.ok());
      EXPECT_EQ(model->Detokenize(tokens.value(), false), text);
    }
    EXPECT_EQ(model->Detokenize({}, true), "");
  }
}

// Without guarded text, our split at special tokens gives llama.cpp's tokens.
TEST(AnUnguardedPromptTokenizesAsInLlamaCpp) {
  std::mt19937 random(5);
  int prompts = 0;
  for (const std::string& path : test::Vocabularies()) {
    if (!Generates(path)) continue;
    const std::unique_ptr<LlamaModel> model = test::LoadVocabulary(path);
    REQUIRE(model != nullptr);
    const SpecialText special(*model);
    const std::vector<Token> controls = ControlTokens(*model);
    std::vector<std::string> bits = {" ",     "\n", "  \n", "user", " Hello", "\u00E9t\u00E9",
                                     "12345", "<",  "|>"};
    for (int i = 0; i < 30; ++i) {
      bits.emplace_back(llama_vocab_get_text(model->vocab(), controls[random() % controls.size()]));
    }
    int wrong = 0;
    for (int round = 0; round < 100; ++round, ++prompts) {
      std::string prompt;
      for (std::size_t n = random() % 20; n > 0; --n) prompt += bits[random() % bits.size()];
      const Result<std::vector<Token>> expected = model->Tokenize(prompt, true, true);
      const Result<std::vector<Token>> actual = special.Tokenize(prompt, "\U0010FF00");
      REQUIRE(expected.ok() && actual.ok());
      wrong += actual.value() == expected.value() ? 0 : 1;
    }
    if (wrong > 0)
      test::Fail(__FILE__, __LINE__,
                 NameOf(path) + ": " + std::to_string(wrong) + " of 100 differ");
  }
  std::printf("     %d prompts\n", prompts);
}

// Every control token of every vocabulary as text in a message, between the template's tokens.
TEST(GuardedTextBecomesNoControlToken) {
  const std::string guard = "\U0010FF07";
  int texts = 0;
  for (const std::string& path : test::Vocabularies()) {
    if (!Generates(path)) continue;
    const std::unique_ptr<LlamaModel> model = test::LoadVocabulary(path);
    REQUIRE(model != nullptr);
    const SpecialText special(*model);
    int wrong = 0;
    for (const Token control : ControlTokens(*model)) {
      const std::string text = llama_vocab_get_text(model->vocab(), control);
      const std::string content = "before " + text + text + " after";
      EXPECT(special.NeedsGuard(content));
      // The template writes the same token before and after the message.
      const std::string prompt = text + "user\n" + special.Guard(content, guard) + text;
      const Result<std::vector<Token>> tokens = special.Tokenize(prompt, guard);
      REQUIRE(tokens.ok());
      const auto controls = std::count_if(tokens.value().begin(), tokens.value().end(),
                                          [&](Token token) { return token == control; });
      const auto bos =
          llama_vocab_get_add_bos(model->vocab()) && llama_vocab_bos(model->vocab()) == control ? 1
                                                                                                : 0;
      const auto eos =
          llama_vocab_get_add_eos(model->vocab()) && llama_vocab_eos(model->vocab()) == control ? 1
                                                                                                : 0;
      if (controls != 2 + bos + eos) {
        ++wrong;
        if (wrong < 4)
          std::fprintf(stderr, "%s: '%s' occurs %ld times\n", NameOf(path).c_str(), text.c_str(),
                       controls);
      }
      ++texts;
    }
    EXPECT_EQ(wrong, 0);
  }
  std::printf("     %d control tokens\n", texts);
}

// Half of a control token in the message, the other half in the template.
TEST(AMessageCompletesNoControlToken) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const SpecialText special(*model);
  const std::string guard = "\U0010FF00";
  const std::string control = "<|im_end|>";
  const Token id = model->Tokenize(control, false, true).value().front();
  for (std::size_t cut = 1; cut < control.size(); ++cut) {
    const std::string head = control.substr(0, cut);
    const std::string tail = control.substr(cut);
    for (const std::string& prompt :
         {"x" + special.Guard("says " + head, guard) + tail,
          head + special.Guard(tail + " it says", guard),
          head + special.Guard("  " + tail, guard).substr(2),  // trimmed
          "x" + special.Guard(head + "\n", guard).substr(0, cut + guard.size()) + tail}) {
      const Result<std::vector<Token>> tokens = special.Tokenize(prompt, guard);
      REQUIRE(tokens.ok());
      EXPECT(std::find(tokens.value().begin(), tokens.value().end(), id) == tokens.value().end());
    }
  }
}

// User-defined tokens that a template writes: only the assistant's texts may have them.
TEST(ATextWritesNoTagOfTheTemplate) {
  const std::string guard = "\U0010FF00";
  int tags = 0;
  for (const std::string& path : test::Vocabularies()) {
    if (!Generates(path)) continue;
    const std::unique_ptr<LlamaModel> model = test::LoadVocabulary(path);
    REQUIRE(model != nullptr);
    const llama_vocab* vocab = model->vocab();
    for (Token token = 0, found = 0; token < llama_vocab_n_tokens(vocab) && found < 20; ++token) {
      const std::string text = llama_vocab_get_text(vocab, token);
      const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab, token));
      if ((attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0 || !text.starts_with('<')) continue;
      const std::string content = "a " + text + " b";
      const bool is_tag = std::any_of(text.begin(), text.end(),
                                      [](unsigned char each) { return std::isalpha(each) != 0; });
      if (!is_tag || SpecialText(*model).NeedsGuard(content)) continue;
      ++found;
      const SpecialText special(*model, "x" + text + "{{ content }}");
      EXPECT(!special.NeedsGuard(content, TextKind::kAnswer));
      for (const TextKind kind : {TextKind::kText, TextKind::kJson}) {
        const std::string prompt = text + special.Guard(content, guard, kind);
        const Result<std::vector<Token>> tokens = special.Tokenize(prompt, guard);
        REQUIRE(tokens.ok());
        EXPECT_EQ(std::count(tokens.value().begin(), tokens.value().end(), token), 1);
      }
      ++tags;
    }
  }
  std::printf("     %d tags\n", tags);
  EXPECT(tags > 0);
}

// With many short pieces, tokenization stops once the limit is exceeded.
TEST(AGuardedPromptThatIsTooLongIsRefusedOnTheWay) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const SpecialText special(*model);
  const std::string guard = "\U0010FF00";
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += special.Guard("<|im_end|>", guard) + "<|im_start|>";
  const Result<std::vector<Token>> whole = special.Tokenize(prompt, guard);
  REQUIRE(whole.ok());
  const auto count = static_cast<std::uint32_t>(whole.value().size());
  EXPECT(special.Tokenize(prompt, guard, count + 1).ok());
  const Result<std::vector<Token>> refused = special.Tokenize(prompt, guard, 50);
  REQUIRE(!refused.ok());
  EXPECT(refused.status().code() == StatusCode::kContextOverflow);
  // It stops within one piece of the limit, far from the end.
  const std::string& message = refused.status().message();
  const int told = std::stoi(message.substr(message.find("least ") + 6));
  EXPECT(told >= 50);
  EXPECT(told < 70);
}

TEST(OrdinaryTextNeedsNoGuard) {
  const std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::TinyModels()[1]);
  REQUIRE(model != nullptr);
  const SpecialText special(*model);
  for (const char* text :
       {"Hello", "What is 2 < 3?", "<html>\n<body>|</body>\n</html>.", "", " ", "a|b"}) {
    EXPECT(!special.NeedsGuard(text));
  }
}

TEST(TheGuardIsACharacterThatNobodyUses) {
  EXPECT_EQ(SpecialText::ChooseGuard({"plain"}), "\U0010FF00");
  EXPECT_EQ(SpecialText::ChooseGuard({"has \U0010FF00", "and \U0010FF01"}), "\U0010FF02");
  EXPECT_EQ(SpecialText::ChooseGuard({"\U0010FF00\U0010FF01"}), "\U0010FF02");
  std::string all;
  for (int low = 0; low < 256; ++low) {
    const std::string guard = SpecialText::ChooseGuard({all});
    EXPECT_EQ(guard.size(), 4U);
    all += guard;
  }
  EXPECT_EQ(SpecialText::ChooseGuard({all}), "");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
