# Cross-compiles for Windows on x64 with Debian's and Ubuntu's g++-mingw-w64-x86-64-posix.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(triplet x86_64-w64-mingw32)
# The variant with POSIX threads: the other one has no std::thread.
set(CMAKE_C_COMPILER ${triplet}-gcc-posix)
set(CMAKE_CXX_COMPILER ${triplet}-g++-posix)
set(CMAKE_STRIP ${triplet}-strip)

# On Windows the stack is aligned to 16 bytes only, and GCC nevertheless moves its 32- and 64-byte
# variables there with instructions that demand more (GCC bug 54412): the assembler replaces those.
# The version of Windows whose functions are used: 10; ggml's C code only compiles for an older one,
# because mingw-w64's headers lack a type that it needs from 8 on.
set(CMAKE_C_FLAGS_INIT "-Wa,-muse-unaligned-vector-move -U_WIN32_WINNT -D_WIN32_WINNT=0x0601")
set(CMAKE_CXX_FLAGS_INIT "-Wa,-muse-unaligned-vector-move -U_WIN32_WINNT -D_WIN32_WINNT=0x0A00")

# Programs are those of this machine; libraries and headers are those of the target.
set(CMAKE_FIND_ROOT_PATH /usr/${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
