# Read after CMake's own rules for macOS and clang. zig makes no bundles, Node loads dynamic libraries,
# too; it rejects -fPIE and the linker's -v.
foreach(language C CXX)
  set(CMAKE_SHARED_MODULE_CREATE_${language}_FLAGS "-dynamiclib -Wl,-headerpad_max_install_names")
  set(CMAKE_${language}_COMPILE_OPTIONS_PIE -fPIC)
  set(CMAKE_${language}_VERBOSE_FLAG -v)
  # Elsewhere than on a Mac, CMake takes the system for one without run paths.
  set(CMAKE_SHARED_LIBRARY_RUNTIME_${language}_FLAG "-Wl,-rpath,")
endforeach()
