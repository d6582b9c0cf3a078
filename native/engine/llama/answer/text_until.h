// GBNF of a text that ends with the first occurrence of a given end.
#pragma once

#include <string>

namespace svc {

// GBNF of one character other than the first of `text`.
std::string NoneOf(const std::string& text);

// Rules for any text up to the first `end`, and `end`. The first rule has the name `name`, the
// others names that begin with it. If `not_first` is not empty, the text does not begin with its
// first character. REQUIRES: `end` is not empty.
//
// Each rule stands for the characters of `end` that have been read, as in the automaton of Knuth,
// Morris and Pratt, "Fast pattern matching in strings" (1977).
std::string TextUntil(const std::string& name, const std::string& end,
                      const std::string& not_first);

}  // namespace svc
