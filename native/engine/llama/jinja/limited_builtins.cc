#include "engine/llama/jinja/limited_builtins.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "engine/base/work_limit.h"
#include "engine/llama/jinja/template_value.h"
#include "engine/llama/jinja/value_keeper.h"
#include "jinja/runtime.h"

namespace svc {
namespace {

using Check = void (*)(const jinja::func_args&);

// Integers beyond it could overflow in the interpreter's loops.
constexpr double kMaxInteger = 1e18;

thread_local std::time_t fixed_time = 0;

[[noreturn]] void Refuse() {
  throw std::runtime_error("the template runs for too long, or needs too much memory");
}

jinja::value ArgumentAt(const jinja::func_args& args, std::size_t index) {
  return args.count() > index ? args.get_args()[index] : jinja::mk_val<jinja::value_undefined>();
}

// The text into which the interpreter turns a value; empty if it has none.
std::string TextOf(const jinja::value& value) {
  const bool has_text = jinja::is_val<jinja::value_string>(value) || value->is_numeric() ||
                        jinja::is_val<jinja::value_array>(value) ||
                        jinja::is_val<jinja::value_object>(value);
  return has_text ? value->as_string().str() : std::string();
}

double NumberOf(const jinja::value& value, double otherwise) {
  return jinja::is_val<jinja::value_int>(value) ? static_cast<double>(value->as_int()) : otherwise;
}

// Number of times that `part` occurs in `text`; one more than its characters if `part` is empty.
double CountOf(const std::string& text, const std::string& part) {
  if (part.empty()) return static_cast<double>(text.size()) + 1;
  RequireMoves(static_cast<double>(text.size()) * static_cast<double>(part.size()));
  double count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Copies of the first argument, or of its list of items.
void CheckCopy(const jinja::func_args& args) {
  const jinja::value value = ArgumentAt(args, 0);
  RequireMemory(kValueBytes + TextBytes(value) + ItemsOf(value) * sizeof(jinja::value));
}

void CheckRange(const jinja::func_args& args) {
  double start = NumberOf(ArgumentAt(args, 0), 0);
  double stop = NumberOf(ArgumentAt(args, 1), 0);
  const double step = NumberOf(ArgumentAt(args, 2), 1);
  if (args.count() == 1) {
    stop = start;
    start = 0;
  }
  if (std::max({std::abs(start), std::abs(stop), std::abs(step)}) > kMaxInteger) {
    RequireMemory(kMaxInteger);
  }
  if (step != 0) RequireMemory(std::max(0.0, (stop - start) / step) * kValueBytes);
}

void CheckReplace(const jinja::func_args& args) {
  CheckCopy(args);
  const std::string text = TextOf(ArgumentAt(args, 0));
  const std::string before = TextOf(ArgumentAt(args, 1));
  const double count = CountOf(text, before);
  const double length = static_cast<double>(text.size());
  const double after = TextBytes(ArgumentAt(args, 2));
  const double result = length + count * after;
  RequireMemory(result);
  // Each replacement moves the rest of the text.
  RequireMoves(before.empty() ? result : count * result);
}

void CheckSplit(const jinja::func_args& args) {
  CheckCopy(args);
  const std::string text = TextOf(ArgumentAt(args, 0));
  const std::string separator = args.count() > 1 ? TextOf(ArgumentAt(args, 1)) : " ";
  if (separator.empty()) return;  // an error
  const double count = CountOf(text, separator);
  RequireMemory(static_cast<double>(text.size()) +
                (count + 1) * (kValueBytes + sizeof(jinja::value)));
  RequireMoves(count * static_cast<double>(text.size()));
}

void CheckStrip(const jinja::func_args& args) {
  CheckCopy(args);
  const Weight chars = Weigh(args.get_kwarg_or_pos("chars", 1));
  RequireMoves(TextBytes(ArgumentAt(args, 0)) * (1 + chars.bytes));
}

void CheckJoin(const jinja::func_args& args) {
  const jinja::value list = ArgumentAt(args, 0);
  RequireMemory(RequireBounded(list).bytes +
                ItemsOf(list) * Weigh(args.get_kwarg_or_pos("d", 1)).bytes);
}

void CheckIndent(const jinja::func_args& args) {
  CheckCopy(args);
  const jinja::value width = args.get_kwarg_or_pos("width", 1);
  const std::string text = TextOf(ArgumentAt(args, 0));
  const auto lines = static_cast<double>(std::count(text.begin(), text.end(), '\n') + 2);
  RequireMemory(static_cast<double>(text.size()) +
                lines * (TextBytes(width) + std::max(4.0, NumberOf(width, 4))));
}

void CheckText(const jinja::func_args& args) {
  const Weight weight = RequireBounded(ArgumentAt(args, 0));
  const jinja::value indent = args.get_kwarg_or_pos("indent", 2);
  const jinja::value separators = args.get_kwarg_or_pos("separators", 3);
  const double each = RequireBounded(separators).bytes +
                      std::max(0.0, NumberOf(indent, 0)) * 2 * (weight.depth + 1);
  RequireMemory(weight.bytes + weight.items * each);
}

void CheckSort(const jinja::func_args& args) {
  CheckCopy(args);
  const jinja::value list = ArgumentAt(args, 0);
  RequireMoves(ItemsOf(list) * RequireBounded(list).bytes);
}

void CheckIn(const jinja::func_args& args) {
  CheckMembership(ArgumentAt(args, 0), ArgumentAt(args, 1));
}

void CheckFormat(const jinja::func_args& args) {
  double bytes = 0;
  for (const jinja::value& each : args.get_args()) bytes += Weigh(each).bytes;
  RequireMemory(bytes);
}

// The interpreter would append the name with the value.
void CheckAppend(const jinja::func_args& args) {
  if (jinja::is_val<jinja::value_kwarg>(ArgumentAt(args, 1))) {
    throw std::runtime_error("append() takes no keyword arguments");
  }
}

void CheckTime(const jinja::func_args& args) {
  if (fixed_time != 0) args.ctx.current_time = fixed_time;
}

Check CheckOf(const std::string& name) {
  static const std::unordered_map<std::string, Check> checks = {
      {"range", CheckRange},   {"replace", CheckReplace},   {"split", CheckSplit},
      {"rsplit", CheckSplit},  {"strip", CheckStrip},       {"lstrip", CheckStrip},
      {"rstrip", CheckStrip},  {"join", CheckJoin},         {"indent", CheckIndent},
      {"tojson", CheckText},   {"string", CheckText},       {"safe", CheckText},
      {"sort", CheckSort},     {"min", CheckSort},          {"max", CheckSort},
      {"dictsort", CheckSort}, {"test_is_in", CheckIn},     {"format", CheckFormat},
      {"append", CheckAppend}, {"strftime_now", CheckTime},
  };
  const auto found = checks.find(name);
  return found == checks.end() ? CheckCopy : found->second;
}

struct LimitedBuiltin {
  jinja::func_handler original;
  Check check;

  jinja::value operator()(const jinja::func_args& args) const {
    if (!WorkLimit::IsInForce()) return original(args);
    // All arguments but the operand are small, and most of them are written or hashed.
    for (std::size_t i = 1; i < args.count(); ++i) (void)RequireBounded(args.get_args()[i]);
    check(args);
    for (const jinja::value& each : args.get_args()) ValueKeeper::Keep(each);
    jinja::value made = original(args);
    // Named arguments are not values: they have no text, and hash what they name.
    if (jinja::is_val<jinja::value_kwarg>(made)) return jinja::mk_val<jinja::value_undefined>();
    ValueKeeper::KeepItems(made);
    return made;
  }
};

// The interpreter copies these tables at each look-up of a name, so each handler holds a pointer.
// The elements of the tables are not const, only the references to them are.
void Wrap(const jinja::func_builtins& builtins) {
  static auto& all = *new std::deque<LimitedBuiltin>();  // used until the process ends
  for (const auto& [name, handler] : builtins) {
    const LimitedBuiltin* limited = &all.emplace_back(LimitedBuiltin{handler, CheckOf(name)});
    const_cast<jinja::func_handler&>(handler) = [limited](const jinja::func_args& args) {
      return (*limited)(args);
    };
  }
}

}  // namespace

void LimitBuiltins() {
  static std::once_flag once;
  std::call_once(once, [] {
    Wrap(jinja::global_builtins());
    Wrap(jinja::mk_val<jinja::value_int>(0)->get_builtins());
    Wrap(jinja::mk_val<jinja::value_float>(0.0)->get_builtins());
    Wrap(jinja::mk_val<jinja::value_string>()->get_builtins());
    Wrap(jinja::mk_val<jinja::value_bool>(false)->get_builtins());
    Wrap(jinja::mk_val<jinja::value_array>()->get_builtins());
    Wrap(jinja::mk_val<jinja::value_object>()->get_builtins());
    Wrap(jinja::mk_val<jinja::value_none>()->get_builtins());
    Wrap(jinja::mk_val<jinja::value_undefined>()->get_builtins());
  });
}

void RequireMemory(double bytes) {
  if (!WorkLimit::MayAllocate(bytes)) Refuse();
}

void RequireMoves(double bytes) {
  if (!WorkLimit::MayMove(bytes)) Refuse();
}

Weight RequireBounded(const jinja::value& value) {
  const Weight weight = Weigh(value);
  if (!weight.is_bounded) RequireMemory(2.0 * WorkLimit::kMaxAllocationBytes);
  return weight;
}

void CheckMembership(const jinja::value& needle, const jinja::value& haystack) {
  const Weight sought = RequireBounded(needle);
  const Weight searched = RequireBounded(haystack);
  const double count =
      jinja::is_val<jinja::value_string>(haystack) ? TextBytes(haystack) : 1 + ItemsOf(haystack);
  RequireMoves(count * sought.bytes + searched.bytes);
}

FixedTime::FixedTime() { fixed_time = std::time(nullptr); }
FixedTime::~FixedTime() { fixed_time = 0; }

}  // namespace svc
