// The chat templates of llama.cpp's tree that call tools.
#pragma once

#include <cstddef>
#include <cstdio>

#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc::test {

// Calls `check(const Template&, const ChatRenderer&)` with each of them, or with the first six in
// builds with sanitizers, where rendering is slow.
template <typename Check>
void ForEachThatCallsTools(Check check) {
  constexpr std::size_t kLeast = kSanitized ? 6 : 55;
  const auto model = LoadTinyModel(TinyModels()[0]);
  REQUIRE(model != nullptr);
  std::size_t checked = 0;
  for (const Template& each : Templates()) {
    if (kSanitized && checked >= kLeast) break;
    const auto renderer = ChatRenderer::New(*model, each.source);
    REQUIRE(renderer.ok());
    if (!renderer.value()->calls_tools()) continue;
    ++checked;
    check(each, *renderer.value());
  }
  std::printf("     %zu templates\n", checked);
  EXPECT(checked >= kLeast);
}

}  // namespace svc::test
