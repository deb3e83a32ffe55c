# SPDX-License-Identifier: Apache-2.0
# Provides the imported target swiftkv::llama: ggml, libllama and llama.cpp's chat and grammar code,
# static.
#
# Two ways to the same files: SWIFTKV_LLAMA_PREFIX names an installed prefix of cmake/llama (what
# `make` uses, so that one build serves every build directory), SWIFTKV_LLAMA_SOURCE names a source
# tree, which is built through cmake/llama inside this build directory. Always a Release build,
# whatever ours is.

if(SWIFTKV_LLAMA_PREFIX)
  set(llama_prefix "${SWIFTKV_LLAMA_PREFIX}")
  if(NOT EXISTS "${llama_prefix}/lib/libllama.a")
    message(FATAL_ERROR "SWIFTKV_LLAMA_PREFIX holds no lib/libllama.a; give the prefix into which "
                        "cmake/llama was installed, not: ${llama_prefix}")
  endif()
elseif(SWIFTKV_LLAMA_SOURCE)
  if(NOT EXISTS "${SWIFTKV_LLAMA_SOURCE}/include/llama.h")
    message(FATAL_ERROR "SWIFTKV_LLAMA_SOURCE holds no include/llama.h; give the top of a llama.cpp "
                        "source tree, not: ${SWIFTKV_LLAMA_SOURCE}")
  endif()
  set(llama_prefix "${PROJECT_BINARY_DIR}/llama-prefix")
else()
  message(FATAL_ERROR
    "llama.cpp was not given. `make build` fetches and builds the pinned version. With CMake alone, add "
    "-DSWIFTKV_LLAMA_SOURCE=<llama.cpp source tree> or -DSWIFTKV_LLAMA_PREFIX=<installed cmake/llama>; "
    "for the cache and its attention only, add -DSWIFTKV_BUILD_MODEL=OFF.")
endif()

# The archives bring the name of the OpenMP runtime that they were compiled for; when this very
# compiler builds them, it is this compiler's.
set(SWIFTKV_LLAMA_OPENMP "")
include("${llama_prefix}/share/swiftkv-llama/openmp_runtime.cmake" OPTIONAL)
if(NOT SWIFTKV_LLAMA_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  set(SWIFTKV_LLAMA_OPENMP OpenMP::OpenMP_CXX)
endif()

# In link order: each archive needs only those that follow it.
set(llama_archives "")
foreach(name llama-common llama-common-base llama ggml ggml-cpu ggml-base)
  list(APPEND llama_archives "${llama_prefix}/lib/lib${name}.a")
endforeach()

if(NOT SWIFTKV_LLAMA_PREFIX)
  include(ExternalProject)
  ExternalProject_Add(swiftkv_llama_build
    SOURCE_DIR "${PROJECT_SOURCE_DIR}/cmake/llama"
    BINARY_DIR "${PROJECT_BINARY_DIR}/llama-build"
    CMAKE_ARGS "-DSWIFTKV_LLAMA_SOURCE=${SWIFTKV_LLAMA_SOURCE}"
               "-DCMAKE_INSTALL_PREFIX=${llama_prefix}"
               "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}"
               "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
               "-DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER}"
               "-DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}"
    BUILD_BYPRODUCTS ${llama_archives}
    USES_TERMINAL_BUILD ON)
endif()

file(MAKE_DIRECTORY "${llama_prefix}/include/llama" "${llama_prefix}/include/llama-common")
add_library(swiftkv_llama INTERFACE)
add_library(swiftkv::llama ALIAS swiftkv_llama)
target_include_directories(swiftkv_llama SYSTEM INTERFACE
  "${llama_prefix}/include/llama" "${llama_prefix}/include/llama-common")
target_link_libraries(swiftkv_llama INTERFACE
  ${llama_archives} ${SWIFTKV_LLAMA_OPENMP} Threads::Threads ${CMAKE_DL_LIBS} m)
if(TARGET swiftkv_llama_build)
  add_dependencies(swiftkv_llama swiftkv_llama_build)
endif()
