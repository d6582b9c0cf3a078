// Depth of JSON texts: exact where the text is JSON, never too small where it is anything else.
#include "engine/base/json_depth.h"

#include <algorithm>
#include <random>
#include <string>

#include "test.h"

namespace svc {
namespace {

std::string Repeat(const std::string& part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

// A strict parser that stops at the first error. deepest(): the depth that it reached.
class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) { Value(); }
  std::size_t deepest() const { return deepest_; }

 private:
  bool Skip(char byte) {
    if (at_ >= text_.size() || text_[at_] != byte) return false;
    ++at_;
    return true;
  }
  bool Text() {
    if (!Skip('"')) return false;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    return Skip('"');
  }
  bool Value() {
    if (Skip('[')) return Members(']', /*has_names=*/false);
    if (Skip('{')) return Members('}', /*has_names=*/true);
    return Skip('1') || Text();
  }
  bool Members(char end, bool has_names) {
    deepest_ = std::max(deepest_, ++depth_);
    if (!Skip(end)) {
      do {
        if (has_names && !(Text() && Skip(':'))) return false;
        if (!Value()) return false;
      } while (Skip(','));
      if (!Skip(end)) return false;
    }
    --depth_;
    return true;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t deepest_ = 0;
};

// A value whose lists and objects are nested `depth` deep.
std::string RandomJson(std::mt19937& random, std::size_t depth) {
  static const std::string kTexts[] = {R"("")", R"("[[")", R"("}\"{")", R"("\\")", R"("a\\\"]")"};
  const auto text = [&] { return kTexts[random() % std::size(kTexts)]; };
  if (depth == 0) return random() % 2 == 0 ? "1" : text();
  const bool is_list = random() % 2 == 0;
  const std::size_t count = 1 + random() % 3;
  const std::size_t deepest = random() % count;
  std::string json;
  for (std::size_t i = 0; i < count; ++i) {
    json += i == 0 ? "" : ",";
    if (!is_list) json += text() + ":";
    json += RandomJson(random, i == deepest ? depth - 1 : random() % depth);
  }
  return is_list ? "[" + json + "]" : "{" + json + "}";
}

TEST(ListsAndObjectsAreCountedWhereTheyAreNested) {
  EXPECT_EQ(JsonDepth(""), 0U);
  EXPECT_EQ(JsonDepth("12"), 0U);
  EXPECT_EQ(JsonDepth("[]"), 1U);
  EXPECT_EQ(JsonDepth("{}"), 1U);
  EXPECT_EQ(JsonDepth(R"([[], {"a": [1]}, []])"), 3U);
  EXPECT_EQ(JsonDepth(Repeat("[],{},", 1000)), 1U);
}

TEST(BracketsInTextsDoNotCount) {
  EXPECT_EQ(JsonDepth(R"("[{[{")"), 0U);
  EXPECT_EQ(JsonDepth(R"(["\"[[", "\\", []])"), 2U);
  EXPECT_EQ(JsonDepth(R"({"]}": {"[": 1}})"), 2U);
  EXPECT_EQ(JsonDepth("\"[[\\"), 0U);  // ends inside an escape
}

TEST(TheLimitIsReachedAndPassed) {
  for (const std::size_t depth : {kMaxJsonDepth, kMaxJsonDepth + 1, std::size_t{1'000'000}}) {
    EXPECT_EQ(JsonDepth(Repeat("[", depth)), depth);
    EXPECT_EQ(JsonDepth(Repeat("{\"a\":", depth) + "1" + Repeat("}", depth)), depth);
  }
}

TEST(EndsWithoutABeginningHideNothing) { EXPECT_EQ(JsonDepth("]]}}]]}}[[{"), 3U); }

TEST(TheDepthOfJsonIsExact) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t depth = random() % 8;
    const std::string json = RandomJson(random, depth);
    REQUIRE(Parser(json).deepest() == depth);
    EXPECT_EQ(JsonDepth(json), depth);
  }
}

TEST(NoTextIsDeeperForAParserThanIsTold) {
  std::mt19937 random(2);
  std::size_t deepest = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = RandomJson(random, random() % 8);
    for (std::size_t changes = random() % 4; changes > 0; --changes) {
      text[random() % text.size()] = "[]{}\",:\\1"[random() % 9];
    }
    const std::size_t depth = Parser(text).deepest();
    EXPECT(JsonDepth(text) >= depth);
    deepest = std::max(deepest, depth);
  }
  EXPECT(deepest >= 7);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
