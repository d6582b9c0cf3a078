// The parts of llama.cpp's parser of an answer (common_peg_arena), a graph in which a part refers
// to the parts below it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peg-parser.h"

namespace svc {

using CallPart = common_peg_parser_id;

// The parts directly below one.
std::vector<CallPart> PartsBelow(const common_peg_arena& parser, CallPart part);

// Calls `visit` with each part from `root` down, once. Below a part for which it returns false, no
// part is visited through it.
void VisitParts(const common_peg_arena& parser, CallPart root,
                const std::function<bool(CallPart)>& visit);

// The tag of a part; empty: it has none.
std::string_view TagOf(const common_peg_arena& parser, CallPart part);

// The first literal below the first part with the tag, from `root` down. Absent: there is none.
std::optional<CallPart> LiteralIn(const common_peg_arena& parser, CallPart root,
                                  std::string_view tag);

// The parts that read a call of each tool, by its name.
std::map<std::string, CallPart> CallsOf(const common_peg_arena& parser);

// Returns the offset at which the parser rejects the text, whatever follows. Absent: the text, or a
// continuation of it, can be parsed.
std::optional<std::size_t> RefusedAt(const common_peg_arena& parser, const std::string& text);

}  // namespace svc
