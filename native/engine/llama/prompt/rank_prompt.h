// Input of a model that ranks: a query and a document, as the model was trained to read them.
//
// The tokens are those of llama-server: the file's own template (`tokenizer.chat_template.rerank`)
// with its {query} and {document} filled in; without a template BOS query EOS SEP document EOS, of
// which the vocabulary may leave out the special ones. There is one difference: text in a query or
// a document never becomes a control token or a placeholder of the template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/chat/special_text.h"
#include "engine/llama/llama_model.h"

namespace svc {

// A query that many documents share.
struct RankQuery {
  std::string text;
  std::vector<Token> tokens;  // empty if the model has a template
};

struct RankInput {
  std::vector<Token> tokens;
  std::uint32_t truncated_tokens = 0;
};

// Owner: the engine. Immutable, any thread. `model` must outlive it.
class RankPrompt {
 public:
  explicit RankPrompt(const LlamaModel& model);

  // Errors: kInvalidRequest (the vocabulary cannot represent the text).
  Result<RankQuery> Read(std::string query) const;

  // Tokens of the query and a document. Errors: as Read.
  Result<std::vector<Token>> Tokens(const RankQuery& query, std::string_view document) const;

  struct Limits {
    std::uint32_t max_tokens = 0;                      // query and document together
    std::optional<std::uint32_t> max_document_tokens;  // absent: no limit
  };
  // As Tokens, with as much of the document's beginning as fits into the limits. More than
  // max_tokens are returned if the query alone does not fit.
  Result<RankInput> Cut(const RankQuery& query, std::string_view document, Limits limits) const;

 private:
  Result<std::vector<Token>> Fill(std::string_view query, std::string_view document) const;
  Result<std::vector<Token>> Plain(std::string_view text) const;

  const LlamaModel& model_;
  std::optional<std::string> template_;
  SpecialText special_text_;
};

}  // namespace svc
