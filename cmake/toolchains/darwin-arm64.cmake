# Compiles and links for macOS on arm64 with zig, which has clang, libc++, and the headers and symbols of
# libSystem. Only scripts/darwin.js uses it, to learn whether that works: each library gets a libc++ of its
# own, and nothing for Metal or Accelerate compiles without Apple's SDK.
#
#   SVC_ZIG      path of zig
#   SVC_MACOS    oldest macOS, as 14.0
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SVC_ZIG SVC_MACOS)

set(CMAKE_C_COMPILER "${SVC_ZIG}" cc -target "aarch64-macos.${SVC_MACOS}")
set(CMAKE_CXX_COMPILER "${SVC_ZIG}" c++ -target "aarch64-macos.${SVC_MACOS}")
# LLVM's: those of binutils know no Mach-O.
set(CMAKE_AR llvm-ar)
set(CMAKE_RANLIB llvm-ranlib)
set(CMAKE_INSTALL_NAME_TOOL llvm-install-name-tool)
set(CMAKE_USER_MAKE_RULES_OVERRIDE "${CMAKE_CURRENT_LIST_DIR}/darwin-arm64.rules.cmake")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
