# Windows needs a library of stubs to link against a program: defines node_library, made from the lists
# of Node-API's functions. The addon looks for them when it first calls one, and then in the program that
# runs (node_program.cc), whatever its name is: svc.exe is a Node, too.
find_program(SVC_DLLTOOL x86_64-w64-mingw32-dlltool REQUIRED)
set(definitions "${CMAKE_CURRENT_BINARY_DIR}/node.def")
file(STRINGS "${PROJECT_SOURCE_DIR}/node_modules/node-api-headers/def/js_native_api.def" functions REGEX "^(napi|node)_")
file(STRINGS "${PROJECT_SOURCE_DIR}/node_modules/node-api-headers/def/node_api.def" more REGEX "^(napi|node)_")
list(APPEND functions ${more})
list(REMOVE_DUPLICATES functions)
list(JOIN functions "\n" functions)
file(WRITE "${definitions}" "LIBRARY node.exe\nEXPORTS\n${functions}\n")
set(stubs "${CMAKE_CURRENT_BINARY_DIR}/libnode.a")
execute_process(
  COMMAND "${SVC_DLLTOOL}" --input-def "${definitions}" --output-delaylib "${stubs}"
  COMMAND_ERROR_IS_FATAL ANY)
add_library(node_library STATIC IMPORTED)
set_target_properties(node_library PROPERTIES IMPORTED_LOCATION "${stubs}")
set(CMAKE_JS_SRC node_program.cc)
set(CMAKE_JS_LIB node_library)
