# Provides libllama. Sets SVC_LLAMA and SVC_LLAMA_TAG and defines the target svc_llama with libllama,
# libllama-common, ggml and their headers, all from one llama.cpp tag.
#
#   prebuilt  shared libraries of the @node-llama-cpp platform package, headers from the source. The
#             addon compiles in about a minute. The default if such a package is installed.
#   source    builds libllama from the source.
#
# The source is the git bundle in the node-llama-cpp package, cloned into SVC_LLAMA_SOURCE_DIR. The
# default folder is cloned again when the package contains another commit; any other folder is used
# as it is.
set(package_dir "${PROJECT_SOURCE_DIR}/node_modules/node-llama-cpp/llama")
set(default_source_dir "${PROJECT_SOURCE_DIR}/build/llama.cpp")
set(SVC_LLAMA_SOURCE_DIR "${default_source_dir}" CACHE PATH "llama.cpp's source")
set(prebuilt_dir "${PROJECT_SOURCE_DIR}/node_modules/@node-llama-cpp/${SVC_LLAMA_PACKAGE}/bins/${SVC_LLAMA_PACKAGE}")

if(NOT EXISTS "${package_dir}/gitRelease.bundle")
  message(FATAL_ERROR "node-llama-cpp is not installed: run `npm install --ignore-scripts` first")
endif()
file(READ "${package_dir}/llama.cpp.info.json" info)
string(JSON SVC_LLAMA_TAG GET "${info}" tag)

set(SVC_LLAMA "" CACHE STRING "prebuilt, source, or empty: prebuilt where such a package is installed")
set_property(CACHE SVC_LLAMA PROPERTY STRINGS "" prebuilt source)
# Not into the cache: a package that is installed later is used.
if(NOT SVC_LLAMA AND SVC_LLAMA_PACKAGE AND IS_DIRECTORY "${prebuilt_dir}")
  set(SVC_LLAMA prebuilt)
elseif(NOT SVC_LLAMA)
  set(SVC_LLAMA source)
endif()

# ---- the source ---------------------------------------------------------------------------------

# Clones the bundle unless `directory` holds its commit. A bundle starts with text lines: a
# signature, then `<commit> <ref>`.
function(svc_clone_llama directory)
  file(STRINGS "${package_dir}/gitRelease.bundle" heads LIMIT_INPUT 4096 REGEX "^[0-9a-f]+ HEAD$")
  string(REGEX MATCH "^[0-9a-f]+" wanted "${heads}")
  # Two CMake runs may configure at the same time.
  file(MAKE_DIRECTORY "${PROJECT_SOURCE_DIR}/build")
  file(LOCK "${directory}.lock" GUARD FUNCTION TIMEOUT 600)
  if(EXISTS "${directory}/.git/HEAD")
    file(STRINGS "${directory}/.git/HEAD" present LIMIT_COUNT 1)
    if(present STREQUAL wanted)
      return()
    endif()
  endif()
  message(STATUS "Cloning llama.cpp ${SVC_LLAMA_TAG} from node-llama-cpp")
  find_package(Git REQUIRED)
  file(REMOVE_RECURSE "${directory}.new")
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" clone --quiet "${package_dir}/gitRelease.bundle" "${directory}.new"
    COMMAND_ERROR_IS_FATAL ANY)
  # Renamed when complete, so that the folder never holds half a clone.
  file(REMOVE_RECURSE "${directory}")
  file(RENAME "${directory}.new" "${directory}")
endfunction()

if(SVC_LLAMA_SOURCE_DIR STREQUAL default_source_dir)
  svc_clone_llama("${default_source_dir}")
elseif(NOT EXISTS "${SVC_LLAMA_SOURCE_DIR}/include/llama.h")
  message(FATAL_ERROR "SVC_LLAMA_SOURCE_DIR=${SVC_LLAMA_SOURCE_DIR} contains no llama.cpp (no include/llama.h)")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${package_dir}/gitRelease.bundle")

# The version that ggml's libraries of these headers report at run time.
file(STRINGS "${SVC_LLAMA_SOURCE_DIR}/ggml/CMakeLists.txt" version_lines
  REGEX "^set\\(GGML_VERSION_(MAJOR|MINOR|PATCH) [0-9]+\\)")
list(TRANSFORM version_lines REPLACE "^.* ([0-9]+)\\).*$" "\\1")
list(JOIN version_lines "." SVC_GGML_VERSION)

# ---- the libraries ------------------------------------------------------------------------------

add_library(svc_llama INTERFACE)
target_include_directories(svc_llama SYSTEM INTERFACE
  "${SVC_LLAMA_SOURCE_DIR}/include"
  "${SVC_LLAMA_SOURCE_DIR}/ggml/include"
  "${SVC_LLAMA_SOURCE_DIR}/common")
find_package(Threads REQUIRED)
target_link_libraries(svc_llama INTERFACE Threads::Threads)

# Libraries of an earlier llama.cpp, or from elsewhere, would be shipped beside the present ones: some
# have the tag in their names, and ggml's modules are found by theirs.
set(libraries_of "${SVC_LLAMA} ${SVC_LLAMA_TAG}")
if(NOT libraries_of STREQUAL "${SVC_LIBRARIES_IN_BIN}")
  file(GLOB old LIST_DIRECTORIES OFF "${CMAKE_BINARY_DIR}/bin/*${CMAKE_SHARED_LIBRARY_SUFFIX}")
  if(old)
    file(REMOVE ${old})
  endif()
  set(SVC_LIBRARIES_IN_BIN "${libraries_of}" CACHE INTERNAL "what the libraries in bin/ are")
endif()

if(SVC_LLAMA STREQUAL "prebuilt")
  if(NOT IS_DIRECTORY "${prebuilt_dir}")
    message(FATAL_ERROR "No prebuilt libllama for ${SVC_PLATFORM}: install its @node-llama-cpp package or set SVC_LLAMA=source")
  endif()
  set(suffix "${CMAKE_SHARED_LIBRARY_SUFFIX}")

  # Two of the library names contain llama.cpp's tag.
  function(svc_import target pattern)
    file(GLOB found "${prebuilt_dir}/${pattern}${suffix}")
    list(LENGTH found count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "Expected one ${pattern}${suffix} in ${prebuilt_dir}, found ${count}")
    endif()
    add_library(${target} SHARED IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${found}")
    target_link_libraries(svc_llama INTERFACE ${target})
  endfunction()
  svc_import(llama "libllama.*")
  svc_import(llama-common "libllama-common*")
  svc_import(ggml "libggml.*")
  svc_import(ggml-base "libggml-base*")

  file(GLOB libraries "${prebuilt_dir}/*${suffix}")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  foreach(library IN LISTS libraries)
    get_filename_component(name "${library}" NAME)
    file(CREATE_LINK "${library}" "${CMAKE_BINARY_DIR}/bin/${name}" COPY_ON_ERROR SYMBOLIC)
  endforeach()
elseif(SVC_LLAMA STREQUAL "source")
  # The CPU backend is built once, for this machine only; as modules for all x86 processors it would
  # be compiled 14 times. For other machines set GGML_NATIVE=OFF, GGML_BACKEND_DL=ON and
  # GGML_CPU_ALL_VARIANTS=ON, as the packages do.
  # No OpenMP: it would ignore the engine's thread pool and be one more library to ship.
  set(BUILD_SHARED_LIBS ON)
  set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
  set(GGML_NATIVE ON CACHE BOOL "")
  set(GGML_OPENMP OFF CACHE BOOL "")
  set(LLAMA_BUILD_COMMON ON CACHE BOOL "")
  set(LLAMA_OPENSSL OFF CACHE BOOL "")
  add_subdirectory("${SVC_LLAMA_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/llama.cpp" EXCLUDE_FROM_ALL)
  target_link_libraries(svc_llama INTERFACE llama-common llama ggml ggml-base)
  unset(BUILD_SHARED_LIBS)
  if(WIN32)
    # cpu_kernels.cc finds functions in the CPU modules that ggml does not mark as exported.
    get_property(modules DIRECTORY "${SVC_LLAMA_SOURCE_DIR}/ggml/src" PROPERTY BUILDSYSTEM_TARGETS)
    list(FILTER modules INCLUDE REGEX "^ggml-cpu-")
    foreach(module IN LISTS modules)
      target_link_options(${module} PRIVATE LINKER:--export-all-symbols)
      # GCC's functions for AMX do not compile where long has 32 bits; cpu_kernels.cc takes AMX out of the
      # modules anyway.
      target_compile_options(${module} PRIVATE -U__AMX_INT8__ -U__AMX_TILE__)
    endforeach()
    # The compiler's own libraries, which no Windows has.
    foreach(name IN ITEMS libstdc++-6 libgcc_s_seh-1 libwinpthread-1)
      execute_process(
        COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=${name}.dll
        OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      file(COPY "${path}" DESTINATION "${CMAKE_BINARY_DIR}/bin")
    endforeach()
  endif()
else()
  message(FATAL_ERROR "SVC_LLAMA is '${SVC_LLAMA}'; it must be prebuilt or source")
endif()
