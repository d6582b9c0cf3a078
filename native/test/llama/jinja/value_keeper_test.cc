// Hand-made values of templates: which are kept, and when they are freed.
#include "engine/llama/jinja/value_keeper.h"

#include <thread>
#include <vector>

#include "test.h"

namespace svc {
namespace {

using jinja::mk_val;
using jinja::value;
using Seen = std::weak_ptr<jinja::value_t>;

value Text(const std::string& text) { return mk_val<jinja::value_string>(text); }
value List(const std::vector<value>& items) { return mk_val<jinja::value_array>(items); }
value Dictionary(const value& item) {
  auto made = mk_val<jinja::value_object>();
  made->insert("key", item);
  return made;
}
value Named(const value& item) { return mk_val<jinja::value_kwarg>("k", item); }
value Method(const value& item) {
  return mk_val<jinja::value_func>("append", jinja::func_handler(), item);
}

// Ways in which a value holds another one.
const std::vector<value (*)(const value&)> kHolders = {
    [](const value& item) { return List({item}); }, Dictionary, Method, Named};

TEST(WhatHoldsOtherValuesIsKeptAsLongAsTheKeeperLives) {
  std::vector<value> values = {Text("a"), mk_val<jinja::value_int>(1)};
  for (const auto& hold : kHolders) values.push_back(hold(Text("a")));
  const value list = List({List({}), Text("a"), List({List({})})});
  {
    const ValueKeeper keeper(/*collects=*/false);
    for (const value& each : values) ValueKeeper::Keep(each);
    for (const value& each : values) ValueKeeper::Keep(each);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].use_count(), i < 2 ? 1 : 2);
    ValueKeeper::KeepItems(list);
    EXPECT_EQ(list->val_arr[0].use_count(), 2);
    EXPECT_EQ(list->val_arr[1].use_count(), 1);
    EXPECT_EQ(list->val_arr[2]->val_arr[0].use_count(), 1);
  }
  for (const value& each : values) EXPECT_EQ(each.use_count(), 1);
}

TEST(OnlyTheOuterKeeperOfAThreadHoldsValues) {
  const std::vector<value> lists = {List({}), List({}), List({}), List({})};
  {
    const ValueKeeper outer(/*collects=*/false);
    {
      const ValueKeeper inner(/*collects=*/false);
      ValueKeeper::Keep(lists[0]);
    }
    ValueKeeper::Keep(lists[1]);
    std::thread([&] { ValueKeeper::Keep(lists[2]); }).join();
    EXPECT(lists[0].use_count() == 2 && lists[1].use_count() == 2);
    EXPECT_EQ(lists[2].use_count(), 1);
  }
  ValueKeeper::Keep(lists[3]);
  for (const value& each : lists) EXPECT_EQ(each.use_count(), 1);
}

// Deeper than the stack could free them.
TEST(ValuesThatAreDeepOrContainThemselvesAreFreed) {
  std::vector<Seen> seen;
  {
    const ValueKeeper keeper(/*collects=*/false);
    for (const auto& hold : kHolders) {
      value deep = List({});
      seen.emplace_back(deep);
      for (int i = 0; i < 100'000; ++i) {
        deep = hold(deep);
        ValueKeeper::Keep(deep);
      }
      const value self = List({});
      self->val_arr = {hold(self), self};
      seen.emplace_back(self);
      ValueKeeper::KeepItems(self);
    }
    EXPECT(!keeper.IsShallow(1'000'000));
  }
  for (const Seen& each : seen) EXPECT(each.expired());
}

TEST(WhatNothingElseHoldsIsCollectedIfItIsToBe) {
  for (const bool collects : {false, true}) {
    const ValueKeeper keeper(collects);
    const value used = List({Text("a")});
    ValueKeeper::Keep(used);
    value dropped = List({used, List({Text("a")})});
    ValueKeeper::KeepItems(dropped);
    const Seen outer = dropped;
    const Seen inner = dropped->val_arr[1];
    dropped = nullptr;
    for (int i = 0; i < 200; ++i) ValueKeeper::Keep(List(std::vector<value>(1000, Text("a"))));
    EXPECT(outer.expired() == collects && inner.expired() == collects);
    EXPECT_EQ(used->val_arr.size(), 1U);
  }
}

}  // namespace
}  // namespace svc

TEST_MAIN()
