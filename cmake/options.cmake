# svc_options: compile options of all our targets, not of libllama.
add_library(svc_options INTERFACE)
target_compile_features(svc_options INTERFACE cxx_std_20)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(MSVC)
  message(FATAL_ERROR "Not with Microsoft's compiler: the package for Windows is made by MinGW-w64 on Linux \
(npm run packages -- win32-x64)")
endif()
# Designated initializers deliberately leave other fields at their defaults.
# Tests are compiled with little optimization: more takes longer than it saves, and less made
# prefix_tiers_test three times as slow. Sanitizers check the engine: their tests need none.
set(is_test $<BOOL:$<TARGET_PROPERTY:SVC_TEST>>)
target_compile_options(svc_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers $<$<CONFIG:Release>:$<IF:${is_test},-O1,-O2>>)
if(WIN32)
  # off_t with 64 bits; no macros min and max.
  target_compile_definitions(svc_options INTERFACE _FILE_OFFSET_BITS=64 NOMINMAX WIN32_LEAN_AND_MEAN)
endif()

if(SVC_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1
    $<IF:${is_test},-O0,-Og> -UNDEBUG)
elseif(SVC_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer -g1
    $<IF:${is_test},-O0,-O1> -UNDEBUG)
elseif(SVC_SANITIZE)
  message(FATAL_ERROR "SVC_SANITIZE is '${SVC_SANITIZE}'; it must be address, thread or empty")
endif()
target_compile_options(svc_options INTERFACE ${sanitize})
target_link_options(svc_options INTERFACE ${sanitize})
