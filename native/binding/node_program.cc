// Windows only. Node-API's functions are in the program that loads the addon. The stubs that stand
// for them (node_library.cmake) would look for a file named node.exe; this hook hands them the
// running program.
// The second needs the first.
// clang-format off
#include <windows.h>
#include <delayimp.h>
// clang-format on

#include <cstring>

namespace {

FARPROC WINAPI FindProgram(unsigned event, PDelayLoadInfo info) {
  const bool is_wanted =
      event == dliNotePreLoadLibrary && std::strcmp(info->szDll, "node.exe") == 0;
  return is_wanted ? reinterpret_cast<FARPROC>(GetModuleHandleW(nullptr)) : nullptr;
}

}  // namespace

extern "C" PfnDliHook __pfnDliNotifyHook2 = FindProgram;
