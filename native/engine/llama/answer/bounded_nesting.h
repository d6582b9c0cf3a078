// Bounds how deep llama.cpp's parser of an answer calls itself.
//
// Its rules for a value refer to themselves: a list holds values. Each level of nesting takes a
// kilobyte of the stack or more, and nothing else limits what a model may write. So the rules are
// copied for each level, in any notation, and the last copy refuses lists and objects.
#pragma once

#include <string>

#include "peg-parser.h"

namespace svc {

// Loads a parser that llama.cpp has saved. It refuses values nested deeper than kMaxJsonDepth: no
// client could send them back. Values of up to four levels less are read as before; between, it
// depends on the notation. Throws the exceptions of libllama-common.
common_peg_arena LoadBounded(const std::string& saved);

}  // namespace svc
