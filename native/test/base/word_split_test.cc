// Long words with every way in which llama.cpp splits texts: none may end the process.
#include "engine/base/word_split.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "child_process.h"
#include "gguf.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

// Names in llama.cpp's source: a new one is tried without a change here.
std::set<std::string> PreTokenizers() {
  std::ifstream file(std::string(SVC_LLAMA_SOURCE_DIR) + "/src/llama-vocab.cpp");
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  const std::regex compared("tokenizer_pre == \"([^\"]+)\"");
  std::set<std::string> names = {"", "unknown-to-svc"};
  for (std::sregex_iterator it(source.begin(), source.end(), compared), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

// A vocabulary with this name; empty: without one.
std::unique_ptr<LlamaModel> LoadWith(const std::string& pre_tokenizer) {
  const std::string source =
      std::string(SVC_LLAMA_SOURCE_DIR) + "/models/ggml-vocab-deepseek-coder.gguf";
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("svc-word-split-" + std::to_string(getpid()) + ".gguf"))
                               .string();
  gguf_context* file = gguf_init_from_file(source.c_str(), {.no_alloc = true, .ctx = nullptr});
  if (file == nullptr) return nullptr;
  gguf_remove_key(file, "tokenizer.ggml.pre");
  if (!pre_tokenizer.empty()) gguf_set_val_str(file, "tokenizer.ggml.pre", pre_tokenizer.c_str());
  const bool is_written = gguf_write_to_file(file, path.c_str(), /*only_meta=*/true);
  gguf_free(file);
  std::unique_ptr<LlamaModel> model = is_written ? test::LoadVocabulary(path) : nullptr;
  std::filesystem::remove(path);
  return model;
}

// Characters that repeat, of each class and of pairs of classes.
const std::vector<std::string> kRepeated = {"a",      "1",  "!",  " ",  "\n",
                                            "\u4e00", "aA", "a1", "a ", "!\n"};

std::string Repeat(const std::string& part, std::size_t times) {
  std::string text;
  while (times-- > 0) text += part;
  return text;
}

// `turn`: number of the tokenizer. The longest words take hundreds of megabytes of stack, so each
// tokenizer gets those of letters and of blanks, and two of the others by turns.
std::vector<std::string> LongTexts(WordSplit split, std::size_t turn) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kRepeated.size(); ++i) {
    const std::string& part = kRepeated[i];
    const std::size_t characters = part.size() == 2 ? 2 : 1;
    const bool is_turn = part == "a" || part == " " || (i + turn) % (kRepeated.size() / 2) == 0;
    // The longest that is tokenized, and one that overflows every stack.
    if (split != WordSplit::kIterative && is_turn)
      texts.push_back(Repeat(part, kMaxWord / characters));
    texts.push_back(Repeat(part, 50'000));
  }
  return texts;
}

// Tokenizes in a child process, which may refuse a text; returns how it was ended otherwise.
std::string EndOf(const LlamaModel& model, const std::vector<std::string>& texts) {
  return test::EndOfChild([&] {
    for (const std::string& text : texts) {
      const auto tokens = model.Tokenize(text, false, true);
      EXPECT(tokens.ok() || tokens.status().code() == StatusCode::kInvalidRequest);
    }
  });
}

TEST(LongWordsEndNoProcess) {
  if (test::kSanitized) return;  // it would keep a stack of 100,000 frames for each allocation
  const std::set<std::string> names = PreTokenizers();
  REQUIRE(names.size() > 50);
  std::size_t loaded = 0;
  for (const std::string& name : names) {
    const std::unique_ptr<LlamaModel> model = LoadWith(name);
    if (model == nullptr) continue;  // refused at load
    // Refused with this tokenizer before libllama reads the file (gguf-checks.ts).
    if (name == "whitespace") continue;
    ++loaded;
    const std::vector<std::string> texts = LongTexts(WordSplitOf(name), loaded);
    if (EndOf(*model, texts).empty()) continue;
    for (const std::string& text : texts) {
      const std::string end = EndOf(*model, {text});
      if (end.empty()) continue;
      test::Fail(__FILE__, __LINE__,
                 name + ": " + end + " by " + std::to_string(text.size()) + " bytes of \"" +
                     text.substr(0, 4) + "\"");
    }
  }
  EXPECT(loaded > 50);
}

TEST(WordsHaveOneClass) {
  using enum WordSplit;
  EXPECT_EQ(LongestWord(kIterative, "aaaa"), 0U);
  EXPECT_EQ(LongestWord(kByClass, ""), 0U);
  EXPECT_EQ(LongestWord(kByClass, "abc def1234,,,,,  x"), 5U);
  EXPECT_EQ(LongestWord(kByClass, "a1b2c3"), 1U);
  EXPECT_EQ(LongestWord(kByClass, "ab\u00e9\u00e9cd"), 6U);
  EXPECT_EQ(LongestWord(kByClass, "12\u00e9!!"), 3U);
  EXPECT_EQ(LongestWord(kByClass, "a\n\n \t b"), 5U);
  EXPECT_EQ(LongestWord(kByLine, "a1 b2\nc\n"), 5U);
  EXPECT_EQ(LongestWord(kByLine, "\n\n\n\na"), 4U);
}

TEST(ATextTooLongToTokenizeIsRefused) {
  const std::unique_ptr<LlamaModel> model = LoadWith("");
  REQUIRE(model != nullptr);
  const auto word = model->Tokenize(Repeat("a", kMaxWord + 1), false, false);
  REQUIRE(!word.ok());
  EXPECT(word.status().code() == StatusCode::kInvalidRequest);
  EXPECT(word.status().message().find("a word of 32769 characters") != std::string::npos);
  const auto text = model->Tokenize(Repeat("a b ", std::size_t{3} << 20U), false, false);
  REQUIRE(!text.ok());
  EXPECT(text.status().code() == StatusCode::kInvalidRequest);
  EXPECT(text.status().message().find("too long to tokenize") != std::string::npos);
  const auto long_word = model->Tokenize(Repeat("ab", 15'000), false, false);
  EXPECT(long_word.ok());
  EXPECT_EQ(model->Detokenize(long_word.value(), false), Repeat("ab", 15'000));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
