// Texts that llama.cpp's tokenizers cannot split into words on the stack of a worker thread.
//
// A BPE vocabulary names the regular expressions that split a text into words. For many, llama.cpp
// has its own code; the others go through std::regex, whose matcher in libstdc++ recurses for each
// character of a match: 24,000 letters, digits or blanks in a row overflow a stack of 8 MiB, which
// ends the engine. So with such a vocabulary a text with long words is tokenized on a larger stack,
// and one with still longer words is refused.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace svc {

enum class WordSplit {
  kIterative,  // by llama.cpp's own code, or not at all
  kByClass,    // a match has letters, digits, punctuation or white space only
  kByLine,     // a match may be a whole line
};

// How BPE vocabularies with this `tokenizer.ggml.pre` are split. Unknown names: kByLine.
WordSplit WordSplitOf(std::string_view pre_tokenizer);

// Upper bound, in characters, of what one match in `text` may have. 0 for kIterative.
std::size_t LongestWord(WordSplit split, std::string_view text);

// Words up to this length need no larger stack.
constexpr std::size_t kMaxSmallWord = 1024;
// Longest word that is tokenized.
constexpr std::size_t kMaxWord = 32'768;

// Calls `work` on a thread that has stack for a word of kMaxWord characters, and returns after it.
// False if there is no such thread; `work` was not called then. `work` must not throw.
bool RunWithWordStack(const std::function<void()>& work);

}  // namespace svc
