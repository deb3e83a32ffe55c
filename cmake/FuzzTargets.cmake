# SPDX-License-Identifier: Apache-2.0
# Builds tests/fuzz/*_fuzz.cpp: with SWIFTKV_FUZZ under libFuzzer, otherwise as tests that replay
# their seeds.
#
# A fuzz file defines LLVMFuzzerTestOneInput and nothing else of the driver. Its seeds, and every
# input that once failed, lie in tests/fuzz/corpus/<name without _fuzz>/.

if(SWIFTKV_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SWIFTKV_FUZZ needs Clang, not: ${CMAKE_CXX_COMPILER_ID}")
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
add_custom_target(fuzzers)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" subject "${name}")
  set(corpus "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${subject}")
  add_executable(${name} "${source}")
  target_link_libraries(${name} PRIVATE swiftkv_test_support ${layer_targets})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  add_dependencies(fuzzers ${name})
  if(SWIFTKV_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/fuzz_replay_main.cpp")
    add_test(NAME ${name} COMMAND ${name} "${corpus}")
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 600)
  endif()
endforeach()
