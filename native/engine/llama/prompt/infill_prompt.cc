#include "engine/llama/prompt/infill_prompt.h"

#include <string_view>

namespace svc {
namespace {

// Separates files where the vocabulary has no token for it; llama-server's.
constexpr std::string_view kSeparator = "\n\n--- snippet ---\n\n";

// Appends tokens and texts to a prompt; the first error stays.
class PromptBuilder {
 public:
  explicit PromptBuilder(const LlamaModel& model) : model_(model) {}

  void Add(Token token) { tokens_.push_back(token); }
  // Text that looks like a control token stays text.
  void Add(const std::string& text) {
    if (!status_.ok() || text.empty()) return;
    Result<std::vector<Token>> added =
        model_.Tokenize(text, /*add_special=*/false, /*parse_special=*/false);
    if (!added.ok()) {
      status_ = added.status();
      return;
    }
    tokens_.insert(tokens_.end(), added.value().begin(), added.value().end());
  }
  Result<std::vector<Token>> Take() {
    if (!status_.ok()) return status_;
    return std::move(tokens_);
  }

 private:
  const LlamaModel& model_;
  std::vector<Token> tokens_;
  Status status_ = Status::Ok();
};

}  // namespace

Result<std::vector<Token>> InfillTokens(const LlamaModel& model, const std::string& beginning,
                                        const Infill& infill) {
  const llama_vocab* vocab = model.vocab();
  const Token before = llama_vocab_fim_pre(vocab);
  const Token after = llama_vocab_fim_suf(vocab);
  const Token middle = llama_vocab_fim_mid(vocab);
  if (before == LLAMA_TOKEN_NULL || after == LLAMA_TOKEN_NULL || middle == LLAMA_TOKEN_NULL) {
    return Status(StatusCode::kInvalidRequest,
                  "this model cannot fill in the middle of a text: its vocabulary has no tokens "
                  "for it",
                  "suffix");
  }
  const Token repository = llama_vocab_fim_rep(vocab);
  const Token file = llama_vocab_fim_sep(vocab);
  PromptBuilder prompt(model);
  if (llama_vocab_get_add_bos(vocab)) prompt.Add(llama_vocab_bos(vocab));
  if (repository != LLAMA_TOKEN_NULL && !infill.extra.empty()) {
    prompt.Add(repository);
    prompt.Add("myproject\n");
  }
  for (const InfillFile& each : infill.extra) {
    if (file != LLAMA_TOKEN_NULL) {
      prompt.Add(file);
      prompt.Add(each.filename + "\n");
    } else {
      prompt.Add(std::string(kSeparator));
    }
    prompt.Add(each.text);
  }
  if (file != LLAMA_TOKEN_NULL && !infill.extra.empty()) {
    prompt.Add(file);
    prompt.Add("filename\n");
  }
  prompt.Add(before);
  prompt.Add(infill.prefix);
  prompt.Add(beginning);
  prompt.Add(after);
  prompt.Add(infill.suffix);
  prompt.Add(middle);
  return prompt.Take();
}

}  // namespace svc
