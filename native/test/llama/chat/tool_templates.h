// The chat templates of llama.cpp's tree that call tools.
#pragma once

#include <cstddef>
#include <cstdio>

#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc::test {

constexpr std::size_t kLeastToolTemplates = 55;
// For tests that would take minutes with sanitizers.
constexpr std::size_t kFewWithSanitizers = kSanitized ? 6 : kLeastToolTemplates;

// Calls `check(const Template&, const ChatRenderer&)` with each of them, or with the first `least`
// if that is less than there are.
template <typename Check>
void ForEachThatCallsTools(Check check, std::size_t least = kLeastToolTemplates) {
  const auto model = LoadTinyModel(TinyModels()[0]);
  REQUIRE(model != nullptr);
  std::size_t checked = 0;
  for (const Template& each : Templates()) {
    if (least < kLeastToolTemplates && checked >= least) break;
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    if (!renderer.value()->calls_tools()) continue;
    ++checked;
    check(each, *renderer.value());
  }
  std::printf("     %zu templates\n", checked);
  EXPECT(checked >= least);
}

}  // namespace svc::test
