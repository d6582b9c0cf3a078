# Provides libmtmd, which turns pictures and sound into embeddings for a model. Defines the target
# svc_mtmd: a static library, compiled from the same llama.cpp tag as the libraries it is linked to
# (llama.cmake), whichever way those come. No package has it prebuilt.
#
# Without its helpers: they decode files without limits, and start ffmpeg (native/engine/llama/media
# has decoders with limits).
set(mtmd_dir "${SVC_LLAMA_SOURCE_DIR}/tools/mtmd")
file(GLOB mtmd_models CONFIGURE_DEPENDS "${mtmd_dir}/models/*.cpp")
add_library(svc_mtmd STATIC
  "${mtmd_dir}/clip.cpp"
  "${mtmd_dir}/mtmd-audio.cpp"
  "${mtmd_dir}/mtmd-image.cpp"
  "${mtmd_dir}/mtmd.cpp"
  ${mtmd_models})
target_include_directories(svc_mtmd SYSTEM PUBLIC "${mtmd_dir}" PRIVATE "${SVC_LLAMA_SOURCE_DIR}/vendor")
target_compile_features(svc_mtmd PRIVATE cxx_std_17)
# Only mtmd-audio.cpp and mtmd-image.cpp work on samples and pixels themselves. The rest describes
# graphs that ggml computes: fast code would only take longer to compile. Functions in sections of
# their own, so that the linker drops what is not called (speech synthesis).
target_compile_options(svc_mtmd PRIVATE -w -O1 -ffunction-sections -fdata-sections)
set_source_files_properties("${mtmd_dir}/mtmd-audio.cpp" "${mtmd_dir}/mtmd-image.cpp" PROPERTIES
  COMPILE_OPTIONS -O3)
set_target_properties(svc_mtmd PROPERTIES UNITY_BUILD ${SVC_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 12)
target_link_libraries(svc_mtmd PUBLIC svc_llama)

# llama.cpp's own program for pictures and sounds, with which `npm run bench:media` compares texts. Built
# only when asked for.
set(vendor_dir "${SVC_LLAMA_SOURCE_DIR}/vendor")
add_executable(llama-mtmd-cli EXCLUDE_FROM_ALL
  "${mtmd_dir}/mtmd-cli.cpp"
  "${mtmd_dir}/mtmd-helper.cpp"
  "${mtmd_dir}/mtmd-helper-gen.cpp"
  "${vendor_dir}/hash/hash.cpp"
  "${vendor_dir}/hash/xxhash/xxhash.c"
  "${vendor_dir}/hash/sha1/sha1.c"
  "${vendor_dir}/hash/sha256/sha256.c")
set_source_files_properties("${vendor_dir}/hash/sha1/sha1.c" PROPERTIES LANGUAGE CXX)
target_include_directories(llama-mtmd-cli PRIVATE "${vendor_dir}" "${vendor_dir}/hash")
target_compile_features(llama-mtmd-cli PRIVATE cxx_std_17)
target_link_libraries(llama-mtmd-cli PRIVATE svc_mtmd)
