// Models that rank, and the tokens that llama-server makes of a query and a document for them.
#pragma once

#include <string>
#include <vector>

#include "models.h"
#include "test.h"

namespace svc::test {

inline std::string RankingBert() { return ModelPath("tiny-rank"); }
inline std::string RankingQwen() { return ModelPath("tiny-rank-qwen3"); }

inline std::vector<Token> Tokenize(const LlamaModel& model, const std::string& text,
                                   bool parse_special) {
  return model.Tokenize(text, /*add_special=*/false, parse_special).value();
}

inline std::string Replace(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// The tokens that llama-server makes of the pair.
inline std::vector<Token> Pair(const LlamaModel& model, const std::string& query,
                               const std::string& document) {
  if (const char* form = llama_model_chat_template(model.get(), "rerank")) {
    const std::string prompt = Replace(Replace(form, "{query}", query), "{document}", document);
    return Tokenize(model, prompt, /*parse_special=*/true);
  }
  // BERT's vocabulary: [CLS] query [SEP] document.
  const llama_vocab* vocab = model.vocab();
  EXPECT(llama_vocab_get_add_bos(vocab) && llama_vocab_get_add_sep(vocab));
  EXPECT(!llama_vocab_get_add_eos(vocab));
  std::vector<Token> tokens = {llama_vocab_bos(vocab)};
  for (const Token token : Tokenize(model, query, false)) tokens.push_back(token);
  tokens.push_back(llama_vocab_sep(vocab));
  for (const Token token : Tokenize(model, document, false)) tokens.push_back(token);
  return tokens;
}

}  // namespace svc::test
