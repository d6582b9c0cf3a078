// Reads variables and members of values without copying llama.cpp's tables of functions.
//
// llama.cpp's interpreter copies its table of about 70 functions whenever a template names a
// variable, and the table of a value's methods whenever it names a member. That took a quarter to a
// third of the time of rendering.
#pragma once

#include <utility>

#include "jinja/runtime.h"

namespace svc {

// Stands for a node that has been executed.
struct Known final : jinja::expression {
  explicit Known(jinja::value known) : known(std::move(known)) {}
  jinja::value execute_impl(jinja::context& /*context*/) const override { return known; }
  jinja::value known;
};

// Returns a node that stands for `node`, if that names a variable or a member; otherwise `node`.
// REQUIRES: the interpreter does not look at the type of a node in this place.
jinja::statement_ptr WithDirectLookup(jinja::statement_ptr node);

}  // namespace svc
