#pragma once

namespace svc {

// The shared library that holds a given function. Stays loaded until the process ends. Thread: any.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(void* function);

  // Sets `function` to the one that the library exports under this name, or to null: false.
  template <typename Function>
  bool Find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(Symbol(name));
    return function != nullptr;
  }

 private:
  // Null: not found.
  void* Symbol(const char* name) const;

  void* handle_ = nullptr;  // the system's; null: there is no such library
};

}  // namespace svc
