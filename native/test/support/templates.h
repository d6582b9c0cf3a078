// The chat templates of llama.cpp's tree.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "chat.h"

namespace svc::test {

struct Template {
  std::string name;
  std::string source;
  common_chat_templates_ptr parsed;
};

inline std::vector<Template> Templates() {
  std::vector<Template> all;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SVC_LLAMA_SOURCE_DIR) +
                                                               "/models/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    all.push_back({entry.path().filename().string(), text.str(),
                   common_chat_templates_init(nullptr, text.str())});
  }
  return all;
}

}  // namespace svc::test
