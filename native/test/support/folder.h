// A temporary folder for one test, removed by the destructor.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace svc::test {

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("svc-test-" + std::to_string(getpid()) + "-" + std::to_string(++Count()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Sorted.
  std::vector<std::filesystem::path> Files(const std::filesystem::path& inside = "") const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_ / inside)) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  static std::atomic<int>& Count() {
    static std::atomic<int> count = 0;
    return count;
  }
  const std::filesystem::path path_;
};

}  // namespace svc::test
