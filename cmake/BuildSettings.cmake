# SPDX-License-Identifier: Apache-2.0
# Sets the language level, the warnings and the flags that every target of ours is compiled with.
#
# Our code is compiled for the baseline of the architecture. Files named *_<isa>.cpp get that
# instruction set on top (Layer.cmake) and are entered only after a check at run time.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

include(GNUInstallDirs)

# Flags that all our targets share; linked PUBLIC by the base layer so that tests and benches get
# them too.
add_library(swiftkv_build_settings INTERFACE)
target_compile_features(swiftkv_build_settings INTERFACE cxx_std_20)
target_compile_options(swiftkv_build_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor
  # GCC 12 reports overlapping copies inside std::string that cannot happen.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${SWIFTKV_WERROR}>:-Werror>)
target_link_options(swiftkv_build_settings INTERFACE LINKER:--as-needed)

# Under a precompiled header GCC 12 follows std::string into lengths that no string has, and warns
# of copies of such lengths. For targets with one that are made of much text: the tests.
add_library(swiftkv_precompiled_warnings INTERFACE)
target_compile_options(swiftkv_precompiled_warnings INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-stringop-overflow>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-stringop-overread>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds>)

if(SWIFTKV_FUZZ)
  target_compile_options(swiftkv_build_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SWIFTKV_SANITIZE)
  target_compile_options(swiftkv_build_settings INTERFACE
    -fsanitize=${SWIFTKV_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
    # GCC cannot follow values through the checks that it inserts itself.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    # It warns of fences, which its ThreadSanitizer does not see; those of Boost have locks beside.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  target_link_options(swiftkv_build_settings INTERFACE -fsanitize=${SWIFTKV_SANITIZE})
endif()
