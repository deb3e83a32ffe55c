# SPDX-License-Identifier: Apache-2.0
# Builds benches/*_bench.cpp, one program each, under the target `benches`, which the default build
# leaves out.

file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benches/*_bench.cpp")
find_package(benchmark QUIET)
add_custom_target(benches)
if(bench_sources AND NOT benchmark_FOUND)
  message(STATUS "Google Benchmark was not found; benches/ is left out")
elseif(bench_sources)
  get_property(layers GLOBAL PROPERTY SWIFTKV_LAYERS)
  list(TRANSFORM layers PREPEND swiftkv_)
  foreach(source IN LISTS bench_sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(${name} PRIVATE ${layers} benchmark::benchmark_main)
    if(TARGET swiftkv::llama)
      target_link_libraries(${name} PRIVATE swiftkv::llama)  # to compare with ggml
    endif()
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benches")
    add_dependencies(benches ${name})
  endforeach()
endif()
