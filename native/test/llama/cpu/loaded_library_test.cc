// Functions of ggml's CPU module, which is loaded while the program runs.
#include "engine/llama/cpu/loaded_library.h"

#include "ggml-backend.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

// A function of the CPU module, found through ggml's registry.
void* KnownFunction() {
  test::LoadModules();
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  return ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                           "ggml_threadpool_new");
}

TEST(AFunctionIsFoundByItsName) {
  void* known = KnownFunction();
  REQUIRE(known != nullptr);
  void (*found)() = nullptr;
  EXPECT(LoadedLibrary(known).Find("ggml_threadpool_new", found));
  EXPECT(reinterpret_cast<void*>(found) == known);
}

TEST(AnUnknownNameIsNotFound) {
  void (*found)() = [] {};
  EXPECT(!LoadedLibrary(KnownFunction()).Find("no_such_function", found));
  EXPECT(found == nullptr);
}

TEST(AnAddressOutsideAnyLibraryHasNoFunctions) {
  int on_the_stack = 0;
  void (*found)() = [] {};
  EXPECT(!LoadedLibrary(&on_the_stack).Find("ggml_threadpool_new", found));
  EXPECT(found == nullptr);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
