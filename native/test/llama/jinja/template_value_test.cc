// The sizes of hand-made values of templates.
#include "engine/llama/jinja/template_value.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/base/work_limit.h"
#include "engine/llama/jinja/value_keeper.h"
#include "test.h"

namespace svc {
namespace {

using jinja::mk_val;
using jinja::value;

value Text(const std::string& text) { return mk_val<jinja::value_string>(text); }
value List(const std::vector<value>& items) { return mk_val<jinja::value_array>(items); }
value Dictionary(const std::vector<std::pair<std::string, value>>& items) {
  auto made = mk_val<jinja::value_object>();
  for (const auto& [key, item] : items) made->insert(key, item);
  return made;
}

std::vector<value> PartsOf(const value& whole) {
  std::vector<value> parts;
  ForEachPart(whole, [&](const value& part) { parts.push_back(part); });
  return parts;
}

TEST(PartsAreWhatAValueHolds) {
  const value item = Text("item");
  EXPECT(PartsOf(item).empty() && PartsOf(mk_val<jinja::value_int>(1)).empty());
  EXPECT(PartsOf(mk_val<jinja::value_undefined>()).empty());
  EXPECT((PartsOf(List({item, item})) == std::vector<value>{item, item}));
  EXPECT(
      (PartsOf(mk_val<jinja::value_tuple>(std::vector<value>{item})) == std::vector<value>{item}));
  const std::vector<value> pair = PartsOf(Dictionary({{"key", item}}));
  REQUIRE(pair.size() == 2);
  EXPECT_EQ(pair[0]->as_string().str(), "key");
  EXPECT(pair[1] == item);
  const auto none = jinja::func_handler();
  EXPECT((PartsOf(mk_val<jinja::value_func>("append", none, item)) == std::vector<value>{item}));
  EXPECT(PartsOf(mk_val<jinja::value_func>("range", none)).empty());
  EXPECT((PartsOf(mk_val<jinja::value_kwarg>("k", item)) == std::vector<value>{item}));
  EXPECT(PartsOf(mk_val<jinja::value_kwarg>("k", nullptr)).empty());
}

TEST(ATextHasTheBytesOfAllItsParts) {
  jinja::string text;
  EXPECT_EQ(TextBytes(mk_val<jinja::value_string>(text)), 0);
  text.parts = {{.is_input = false, .val = "abc"}, {.is_input = true, .val = "de"}};
  const double one = TextBytes(Text(""));
  EXPECT(one > 0);
  EXPECT_EQ(TextBytes(mk_val<jinja::value_string>(text)), 2 * one + 5);
  // Only texts have bytes of text.
  EXPECT_EQ(TextBytes(List({Text("abc")})), 0);
  EXPECT_EQ(TextBytes(mk_val<jinja::value_int>(12345)), 0);
}

TEST(ItemsAreCountedInListsAndDictionaries) {
  EXPECT_EQ(ItemsOf(List({})), 0);
  EXPECT_EQ(ItemsOf(List({Text("a"), List({Text("b"), Text("c")})})), 2);
  EXPECT_EQ(ItemsOf(mk_val<jinja::value_tuple>(std::vector<value>(3, Text("a")))), 3);
  EXPECT_EQ(ItemsOf(Dictionary({{"a", Text("x")}, {"b", Text("y")}})), 2);
  EXPECT_EQ(ItemsOf(Text("abc")), 0);
  EXPECT_EQ(ItemsOf(mk_val<jinja::value_int>(7)), 0);
  EXPECT_EQ(ItemsOf(mk_val<jinja::value_undefined>()), 0);
}

TEST(KeysWeighLikeItems) {
  const Weight list = Weigh(List({Text("key"), Text("item")}));
  const Weight dictionary = Weigh(Dictionary({{"key", Text("item")}}));
  EXPECT_EQ(dictionary.bytes, list.bytes);
  EXPECT_EQ(dictionary.items, 3);
  EXPECT_EQ(dictionary.depth, 1);
  EXPECT(dictionary.is_bounded);
}

// Random values that share parts.
TEST(DepthAndWeightAreThoseOfAllParts) {
  std::mt19937 random(1);
  const double own = Weigh(List({})).bytes;
  for (int round = 0; round < 300; ++round) {
    const ValueKeeper keeper(/*collects=*/false);
    std::vector<value> made = {List({})};
    std::vector<Weight> weights = {Weigh(made[0])};
    for (std::size_t i = 1, deepest = 1; i < 12; ++i) {
      const std::size_t a = random() % i;
      const std::size_t b = random() % i;
      const value text = Text(std::string(i, 'x'));
      EXPECT_EQ(TextBytes(text), TextBytes(Text("")) + static_cast<double>(i));
      made.push_back(List({made[a], text, made[b]}));
      weights.push_back(Weigh(made[i]));
      EXPECT_EQ(ItemsOf(made[i]), 3);
      EXPECT_EQ(weights[i].items, 2 + weights[a].items + weights[b].items);
      EXPECT_EQ(weights[i].bytes, 2 * own + TextBytes(text) + weights[a].bytes + weights[b].bytes);
      EXPECT_EQ(weights[i].depth, 1 + std::max(weights[a].depth, weights[b].depth));
      ValueKeeper::Keep(made[i]);
      deepest = std::max<std::size_t>(deepest, weights[i].depth);
      EXPECT(weights[i].is_bounded && keeper.IsShallow(deepest + 1) && !keeper.IsShallow(deepest));
    }
  }
}

TEST(AWalkWithoutAnEndIsUnbounded) {
  value deep = List({});
  for (int i = 0; i < 200; ++i) deep = List({deep});
  EXPECT(Weigh(deep).is_bounded && !Weigh(List({deep})).is_bounded);
  value large = List({});
  for (int i = 0; i < 100; ++i) large = List({large, large});
  EXPECT(!Weigh(large).is_bounded);
  const value self = List({});
  self->val_arr = {self};
  EXPECT(!Weigh(self).is_bounded);
  self->val_arr.clear();
}

TEST(TheWalkEndsBehindTheLargestDepthOrSize) {
  value deep = Text("");
  for (int depth = 0; depth <= 201; ++depth) {
    const Weight weight = Weigh(deep);
    EXPECT_EQ(weight.is_bounded, depth <= 200);
    EXPECT_EQ(weight.depth, std::min(depth, 201));
    deep = List({deep});
  }
  // One text may be too long by itself.
  const double most = WorkLimit::kMaxAllocationBytes;
  const double empty = Weigh(Text("")).bytes;
  const auto length = static_cast<std::size_t>(most - empty);
  EXPECT(Weigh(Text(std::string(length, 'x'))).is_bounded);
  EXPECT(!Weigh(Text(std::string(length + 1, 'x'))).is_bounded);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
