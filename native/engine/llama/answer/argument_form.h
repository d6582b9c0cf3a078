// How a format of calls writes one argument: the texts around its value, and the value, either bare
// or as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/llama/answer/call_parts.h"

namespace svc {

// A part of the text of an argument.
struct FormPiece {
  enum class Kind {
    kText,    // `text`
    kSpace,   // any white space
    kFiller,  // what the format ignores, up to `text`
    kJson,    // the value as JSON; if `text` is not empty, all up to it is read as the value
    kBare,    // the value as it is, a string
    kNot,     // nothing; what follows does not begin with `text`
  };
  Kind kind = Kind::kText;
  std::string text;
};
using ArgumentForm = std::vector<FormPiece>;

// The forms of the argument that `part` reads, in the order in which the parser tries them. Absent:
// the part has something that cannot be written in this way, values in values for instance.
std::optional<std::vector<ArgumentForm>> FormsOf(const common_peg_arena& parser, CallPart part);

// True if the form has a piece of that kind.
bool Has(const ArgumentForm& form, FormPiece::Kind kind);

}  // namespace svc
