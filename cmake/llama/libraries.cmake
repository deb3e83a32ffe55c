# SPDX-License-Identifier: Apache-2.0
# Trims llama-common to chat templates, grammars and sampling, and installs libraries and headers.
#
# What is dropped reads command lines, downloads models or talks to terminals; nothing of that may
# run inside a library. Compiled in batches because every file of it includes the same large
# headers.

set(dropped arg console debug download hf-cache imatrix-loader llguidance preset subproc)
get_target_property(sources llama-common SOURCES)
foreach(name IN LISTS dropped)
  list(REMOVE_ITEM sources ${name}.cpp ${name}.h)
endforeach()
get_target_property(links llama-common LINK_LIBRARIES)
list(REMOVE_ITEM links cpp-httplib)
set_target_properties(llama-common PROPERTIES
  SOURCES "${sources}"
  LINK_LIBRARIES "${links}"
  UNITY_BUILD ON
  UNITY_BUILD_BATCH_SIZE 6
  # Several of its files define this macro for themselves.
  UNITY_BUILD_CODE_AFTER_INCLUDE "#undef FILENAME")
# json.cpp instantiates the JSON library by itself; it is the longest file and best alone.
set_source_files_properties("${SWIFTKV_LLAMA_SOURCE}/common/json.cpp"
  TARGET_DIRECTORY llama-common PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Nothing of it runs once per token, nor does libllama but for the files below: the kernels are in
# ggml, and what libllama does itself is build graphs, which takes microseconds. So compile time
# counts for more than speed.
target_compile_options(llama-common PRIVATE -O1)
target_compile_options(llama PRIVATE -O1)
foreach(name llama-grammar llama-sampler llama-vocab unicode)
  set_source_files_properties("${SWIFTKV_LLAMA_SOURCE}/src/${name}.cpp"
    TARGET_DIRECTORY llama PROPERTIES COMPILE_OPTIONS -O3)
endforeach()

# EXCLUDE_FROM_ALL above holds for everything in the tree; this target pulls in what is installed.
add_custom_target(swiftkv_llama_libraries ALL
  DEPENDS llama-common llama-common-base llama ggml ggml-cpu ggml-base)

foreach(target llama-common llama-common-base llama ggml ggml-cpu ggml-base)
  install(FILES "$<TARGET_FILE:${target}>" DESTINATION lib)
endforeach()
file(GLOB ggml_headers "${SWIFTKV_LLAMA_SOURCE}/ggml/include/*.h")
install(FILES ${ggml_headers} DESTINATION include/llama)
install(FILES "${SWIFTKV_LLAMA_SOURCE}/include/llama.h" "${SWIFTKV_LLAMA_SOURCE}/include/llama-cpp.h"
        DESTINATION include/llama)
foreach(name chat common json json-schema json-schema-to-grammar peg-parser sampling)
  install(FILES "${SWIFTKV_LLAMA_SOURCE}/common/${name}.h" DESTINATION include/llama-common)
endforeach()
file(GLOB jinja_headers "${SWIFTKV_LLAMA_SOURCE}/common/jinja/*.h")
install(FILES ${jinja_headers} DESTINATION include/llama-common/jinja)
install(FILES "${SWIFTKV_LLAMA_SOURCE}/LICENSE" DESTINATION share/licenses/llama.cpp)

# The OpenMP runtime that the archives were compiled for: whoever links them needs the same one,
# also with another compiler.
find_package(OpenMP REQUIRED COMPONENTS CXX)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/openmp_runtime.cmake"
  "set(SWIFTKV_LLAMA_OPENMP \"${OpenMP_CXX_LIBRARIES}\")\n")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/openmp_runtime.cmake" DESTINATION share/swiftkv-llama)
