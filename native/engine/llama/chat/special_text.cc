#include "engine/llama/chat/special_text.h"

#include <algorithm>
#include <cctype>

#include "engine/base/work_limit.h"

namespace svc {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// True if `text` begins with a proper suffix of `control`.
bool BeginsWithTail(std::string_view text, std::string_view control) {
  for (std::size_t n = 1; n < control.size(); ++n) {
    if (text.starts_with(control.substr(control.size() - n))) return true;
  }
  return false;
}

// Adds the offsets at which `text` ends with a proper prefix of `control`.
void AddHeads(std::string_view text, std::string_view control, std::vector<std::size_t>* points) {
  for (std::size_t n = 1; n < control.size(); ++n) {
    if (text.ends_with(control.substr(0, n))) points->push_back(text.size() - n);
  }
}

}  // namespace

SpecialText::SpecialText(const LlamaModel& model, std::string_view chat_template)
    : model_(model), guarded_by_first_byte_(256) {
  const llama_vocab* vocab = model.vocab();
  for (Token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab, token));
    const bool control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    if (!control && (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0) continue;
    std::string text = llama_vocab_get_text(vocab, token);
    if (text.empty()) continue;
    // Those that begin with a bracket can be cut after it.
    const bool is_word = std::ispunct(static_cast<unsigned char>(text.front())) != 0 &&
                         std::any_of(text.begin(), text.end(), IsLetter);
    const bool written = is_word && chat_template.find(text) != std::string_view::npos;
    specials_.push_back({.token = token,
                         .text = std::move(text),
                         .control = control,
                         .guarded = control || written,
                         .strips_left = (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                         .strips_right = (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0});
  }
  std::stable_sort(specials_.begin(), specials_.end(), [](const Special& a, const Special& b) {
    return a.text.size() > b.text.size();
  });
  for (std::size_t i = 0; i < specials_.size(); ++i) {
    const auto first = static_cast<unsigned char>(specials_[i].text.front());
    if (specials_[i].guarded) guarded_by_first_byte_[first].push_back(i);
  }
}

std::vector<std::size_t> SpecialText::GuardPoints(std::string_view text, TextKind kind) const {
  std::vector<std::size_t> points;
  if (text.empty()) return points;
  const auto counts = [&](const Special& special) {
    return special.control || kind != TextKind::kAnswer;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto& candidates = guarded_by_first_byte_[static_cast<unsigned char>(text[at])];
    const bool is_special = std::any_of(candidates.begin(), candidates.end(), [&](std::size_t i) {
      return counts(specials_[i]) && text.substr(at).starts_with(specials_[i].text);
    });
    if (is_special) points.push_back(at);
  }
  if (kind == TextKind::kJson) return points;
  // Templates may trim messages: then the trimmed text touches the template's own.
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (begin < end && IsSpace(text[begin])) ++begin;
  while (end > begin && IsSpace(text[end - 1])) --end;
  for (const Special& special : specials_) {
    if (!special.guarded || !counts(special)) continue;
    if (BeginsWithTail(text, special.text)) points.push_back(0);
    if (BeginsWithTail(text.substr(begin), special.text)) points.push_back(begin);
    AddHeads(text, special.text, &points);
    AddHeads(text.substr(0, end), special.text, &points);
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

std::string SpecialText::ChooseGuard(const std::vector<std::string_view>& texts) {
  // U+10FF00 .. U+10FFFF: private use.
  for (int low = 0; low < 256; ++low) {
    std::string guard = "\xF4\x8F\xBC\x80";
    guard[2] = static_cast<char>(0xBC + low / 64);
    guard[3] = static_cast<char>(0x80 + low % 64);
    if (std::none_of(texts.begin(), texts.end(), [&](std::string_view text) {
          return text.find(guard) != std::string_view::npos;
        })) {
      return guard;
    }
  }
  return "";
}

std::string SpecialText::Guard(std::string_view text, std::string_view guard, TextKind kind) const {
  std::string guarded;
  std::size_t from = 0;
  for (const std::size_t point : GuardPoints(text, kind)) {
    guarded += text.substr(from, point - from);
    guarded += guard;
    from = point;
  }
  guarded += text.substr(from);
  return guarded;
}

// Splits a text at every unguarded occurrence of the special token.
void SpecialText::Split(const Special& special, std::string_view guard, std::string_view text,
                        std::vector<Fragment>* fragments) const {
  std::size_t search_from = 0;
  for (;;) {
    const auto at = text.find(special.text, search_from);
    if (at == std::string_view::npos) break;
    if (special.guarded && text.substr(0, at).ends_with(guard)) {
      search_from = at + 1;
      continue;
    }
    std::string_view left = text.substr(0, at);
    text.remove_prefix(at + special.text.size());
    if (special.strips_left) {
      while (!left.empty() && IsSpace(left.back())) left.remove_suffix(1);
    }
    if (special.strips_right) {
      while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
    }
    if (!left.empty()) fragments->push_back({-1, left});
    fragments->push_back({special.token, {}});
    search_from = 0;
  }
  if (!text.empty()) fragments->push_back({-1, text});
}

// Texts without guards. llama.cpp recognizes user-defined tokens in any text, so guarded ones are
// cut after their first byte, and those that two texts form together where these meet.
std::vector<std::string> SpecialText::PlainTexts(std::string_view text,
                                                 std::string_view guard) const {
  std::string joined;
  std::vector<std::size_t> joints;  // offsets in `joined` where a guard was
  for (;;) {
    const auto at = text.find(guard);
    joined += text.substr(0, at);
    if (at == std::string_view::npos) break;
    joints.push_back(joined.size());
    text.remove_prefix(at + guard.size());
  }
  std::vector<std::size_t> cuts;
  auto joint = joints.begin();
  for (std::size_t at = 0; at < joined.size() && joint != joints.end(); ++at) {
    while (joint != joints.end() && *joint < at) ++joint;
    for (const std::size_t i : guarded_by_first_byte_[static_cast<unsigned char>(joined[at])]) {
      const Special& special = specials_[i];
      const bool has_joint = joint != joints.end() && *joint < at + special.text.size();
      if (special.control || !has_joint) continue;
      if (std::string_view(joined).substr(at).starts_with(special.text)) {
        cuts.push_back(std::max(*joint, at + 1));
      }
    }
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::string> texts;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    if (cut == from) continue;
    texts.push_back(joined.substr(from, cut - from));
    from = cut;
  }
  texts.push_back(joined.substr(from));
  return texts;
}

Result<std::vector<Token>> SpecialText::Tokenize(std::string_view prompt, std::string_view guard,
                                                 std::uint32_t context_length,
                                                 bool add_special) const {
  std::vector<Fragment> fragments{{-1, prompt}};
  for (const Special& special : specials_) {
    if (prompt.find(special.text) == std::string_view::npos) continue;
    std::vector<Fragment> finer;
    for (const Fragment& fragment : fragments) {
      if (fragment.token >= 0) {
        finer.push_back(fragment);
      } else {
        Split(special, guard, fragment.text, &finer);
      }
    }
    fragments = std::move(finer);
  }

  const llama_vocab* vocab = model_.vocab();
  std::vector<Token> tokens;
  if (add_special && llama_vocab_get_add_bos(vocab)) tokens.push_back(llama_vocab_bos(vocab));
  for (const Fragment& fragment : fragments) {
    // Each piece alone is too short for LlamaModel::Tokenize to notice that the whole prompt is too
    // long.
    if (context_length > 0 && tokens.size() + 1 > context_length) {
      return LlamaModel::TooLong(
          {.prompt_tokens = tokens.size(), .is_minimum = true, .context_length = context_length});
    }
    if (fragment.token >= 0) {
      tokens.push_back(fragment.token);
      continue;
    }
    if (WorkLimit::IsExceeded()) {
      return Status(StatusCode::kInvalidRequest, "tokenizing the chat takes too long");
    }
    for (const std::string& text : PlainTexts(fragment.text, guard)) {
      SVC_ASSIGN_OR_RETURN(
          const std::vector<Token> part,
          model_.Tokenize(text, /*add_special=*/false, /*parse_special=*/false, context_length));
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
  }
  if (add_special && llama_vocab_get_add_eos(vocab)) tokens.push_back(llama_vocab_eos(vocab));
  return tokens;
}

}  // namespace svc
