#include "engine/base/word_split.h"

#include <pthread.h>

#include <algorithm>

namespace svc {
namespace {

template <typename... Names>
bool IsAnyOf(std::string_view name, Names... names) {
  return ((name == names) || ...);
}

// The names of llama_vocab::impl::load in the tag that is built; word_split_test compares the
// outcomes.
bool IsIterative(std::string_view pre_tokenizer) {
  return IsAnyOf(pre_tokenizer, "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1",
                 "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "dbrx", "smaug-bpe", "glm4",
                 "chatglm-bpe", "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "qwen35",
                 "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2", "gpt-2", "phi-2",
                 "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "jina-v1-en",
                 "jina-v2-code", "roberta-bpe", "mpt", "olmo", "jais", "trillion",
                 "granite-docling", "starcoder", "refact", "command-r", "smollm", "codeshell",
                 "exaone", "exaone4", "minerva-7b", "mellum", "mellum2", "modern-bert", "a.x-4.0",
                 "kimi-k2", "gemma4", "sarvam-moe", "laguna", "granite-embed-multi-311m");
}
bool IsByClass(std::string_view pre_tokenizer) {
  return IsAnyOf(pre_tokenizer, "default", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                 "falcon", "youtu", "tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2",
                 "tiny_aya", "cohere2moe", "chameleon", "bailingmoe", "bailingmoe2", "llada-moe",
                 "seed-coder", "hunyuan-dense", "hy_v4", "joyai-llm", "spark2_5", "ufakzeka",
                 "afmoe", "minicpm5", "jais-2", "granite-embed-multi-97m");
}

bool IsSpace(unsigned char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool IsDigit(unsigned char byte) { return byte >= '0' && byte <= '9'; }
bool IsLetter(unsigned char byte) {
  const unsigned char lower = byte | 0x20U;
  return lower >= 'a' && lower <= 'z';
}

// A run of the characters that `belongs`; others end it. Characters beyond ASCII belong to any.
class Run {
 public:
  void Read(bool belongs) {
    length_ = belongs ? length_ + 1 : 0;
    longest_ = std::max(longest_, length_);
  }
  std::size_t longest() const { return longest_; }

 private:
  std::size_t length_ = 0;
  std::size_t longest_ = 0;
};

// Each character takes 356 bytes, and a match may join two runs.
constexpr std::size_t kStackBytes = std::size_t{64} << 20U;

}  // namespace

WordSplit WordSplitOf(std::string_view pre_tokenizer) {
  if (IsIterative(pre_tokenizer)) return WordSplit::kIterative;
  return IsByClass(pre_tokenizer) ? WordSplit::kByClass : WordSplit::kByLine;
}

std::size_t LongestWord(WordSplit split, std::string_view text) {
  if (split == WordSplit::kIterative) return 0;
  Run letters;
  Run digits;
  Run others;
  Run spaces;
  Run lines;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if ((byte & 0xC0U) == 0x80U) continue;  // not the first byte of a character
    const bool is_any = byte >= 0x80U;
    const bool is_space = IsSpace(byte);
    spaces.Read(is_any || is_space);
    lines.Read(byte != '\n');
    letters.Read(is_any || IsLetter(byte));
    digits.Read(is_any || IsDigit(byte));
    others.Read(is_any || (!is_space && !IsLetter(byte) && !IsDigit(byte)));
  }
  if (split == WordSplit::kByLine) return std::max(lines.longest(), spaces.longest());
  return std::max({letters.longest(), digits.longest(), others.longest(), spaces.longest()});
}

bool RunWithWordStack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread{};
  const bool is_started = pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                          pthread_create(
                              &thread, &attributes,
                              [](void* given) -> void* {
                                (*static_cast<const std::function<void()>*>(given))();
                                return nullptr;
                              },
                              const_cast<std::function<void()>*>(&work)) == 0;
  pthread_attr_destroy(&attributes);
  if (is_started) pthread_join(thread, nullptr);
  return is_started;
}

}  // namespace svc
