#include "engine/llama/cpu/loaded_library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace svc {

#ifdef _WIN32

LoadedLibrary::LoadedLibrary(void* function) {
  HMODULE module = nullptr;
  if (GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                         static_cast<LPCWSTR>(function), &module)) {
    handle_ = module;
  }
}

void* LoadedLibrary::Symbol(const char* name) const {
  if (handle_ == nullptr) return nullptr;
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name));
}

#else

LoadedLibrary::LoadedLibrary(void* function) {
  Dl_info info{};
  // Never closed.
  if (dladdr(function, &info) != 0) handle_ = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void* LoadedLibrary::Symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

#endif

}  // namespace svc
