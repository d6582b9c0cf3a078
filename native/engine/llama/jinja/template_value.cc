#include "engine/llama/jinja/template_value.h"

#include <algorithm>

#include "engine/base/work_limit.h"

namespace svc {
namespace {

constexpr int kMaxValueDepth = 200;
constexpr double kPartBytes = sizeof(jinja::string_part);
// Output overhead per value: brackets, separators, digits.
constexpr double kItemBytes = 16;

void Add(const jinja::value& value, int depth, Weight* weight) {
  if (!weight->is_bounded) return;
  ++weight->items;
  weight->bytes += kItemBytes + TextBytes(value);
  weight->depth = std::max(weight->depth, depth);
  if (depth > kMaxValueDepth || weight->bytes > WorkLimit::kMaxAllocationBytes) {
    weight->is_bounded = false;
    return;
  }
  ForEachPart(value, [&](const jinja::value& part) { Add(part, depth + 1, weight); });
}

}  // namespace

double TextBytes(const jinja::value& value) {
  const auto* text = jinja::cast_val<jinja::value_string>(value);
  if (text == nullptr) return 0;
  double bytes = 0;
  for (const jinja::string_part& part : text->val_str.parts) {
    bytes += kPartBytes + static_cast<double>(part.val.size());
  }
  return bytes;
}

double ItemsOf(const jinja::value& value) {
  if (jinja::is_val<jinja::value_array>(value)) {
    return static_cast<double>(value->as_array().size());
  }
  if (jinja::is_val<jinja::value_object>(value)) {
    return static_cast<double>(value->as_ordered_object().size());
  }
  return 0;
}

Weight Weigh(const jinja::value& value) {
  Weight weight;
  Add(value, 0, &weight);
  return weight;
}

}  // namespace svc
