// The chat templates of llama.cpp's tree with tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "engine/llama/chat/chat_renderer.h"
#include "models.h"
#include "templates.h"
#include "test.h"

namespace svc::test {

constexpr std::size_t kLeastToolTemplates = 55;
constexpr std::size_t kLeastWithTools = 67;
// For tests that would take minutes with sanitizers.
constexpr std::size_t kFewWithSanitizers = kSanitized ? 6 : kLeastWithTools;

// Calls `check(const Template&, const ChatRenderer&)` with each template for whose renderer
// `is_one` is true. Returns how many there are; with `most`, it stops after so many.
template <typename IsOne, typename Check>
std::size_t ForEachTemplate(IsOne is_one, Check check, std::size_t most = SIZE_MAX) {
  const auto model = LoadTinyModel(TinyModels()[0]);
  if (model == nullptr) return 0;
  std::size_t checked = 0;
  for (const Template& each : Templates()) {
    if (checked == most) break;
    const auto renderer = ChatRenderer::New(*model, each.source);
    EXPECT(renderer.ok());
    if (!renderer.ok() || !is_one(*renderer.value())) continue;
    ++checked;
    check(each, *renderer.value());
  }
  std::printf("     %zu templates\n", checked);
  return checked;
}

// Those with a form for tool calls.
template <typename Check>
void ForEachThatCallsTools(Check check) {
  const auto calls_tools = [](const ChatRenderer& each) { return each.calls_tools(); };
  EXPECT(ForEachTemplate(calls_tools, check) >= kLeastToolTemplates);
}

// Also those for which tools are a text; or the first `least`, if that is less than there are.
template <typename Check>
void ForEachThatTakesTools(Check check, std::size_t least = kLeastWithTools) {
  const auto takes_tools = [](const ChatRenderer& each) { return each.takes_tools(); };
  const std::size_t most = least < kLeastWithTools ? least : SIZE_MAX;
  EXPECT(ForEachTemplate(takes_tools, check, most) >= least);
}

}  // namespace svc::test
