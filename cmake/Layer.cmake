# SPDX-License-Identifier: Apache-2.0
# Declares a layer: a folder of src that becomes one library and sees only the layers that it names.
#
#   swiftkv_add_layer(<name> [LAYERS <lower>...] [DEPENDS <target>...] [PRIVATE_DEPENDS <target>...]
#                     [MAIN <executable>])
#
# Includes are written from src ("cache/page_table.h"). To make an upward include fail in the
# compiler and not only in review, each layer exports a directory that holds nothing but a link to
# its own folder. A folder without sources (headers only, or not begun) becomes an INTERFACE library
# of the same name. With MAIN, src/<name>/main.cpp becomes that executable and everything else the
# library.

# Instruction sets by file suffix. A file gets the flags of the longest suffix that matches its
# name.
set(SWIFTKV_ISA_SUFFIXES avx2 avx512 avx512vnni avx512bf16 avx512fp16 amx)
set(SWIFTKV_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(SWIFTKV_ISA_FLAGS_avx512 ${SWIFTKV_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq
    -mavx512cd -mprefer-vector-width=512)
set(SWIFTKV_ISA_FLAGS_avx512vnni ${SWIFTKV_ISA_FLAGS_avx512} -mavx512vnni)
set(SWIFTKV_ISA_FLAGS_avx512bf16 ${SWIFTKV_ISA_FLAGS_avx512vnni} -mavx512bf16)
set(SWIFTKV_ISA_FLAGS_avx512fp16 ${SWIFTKV_ISA_FLAGS_avx512bf16} -mavx512vbmi -mavx512fp16)
set(SWIFTKV_ISA_FLAGS_amx ${SWIFTKV_ISA_FLAGS_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)

# GCC 12 warns of its own AVX-512 intrinsics, which leave the unused part of a register undefined on
# purpose.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  foreach(isa IN LISTS SWIFTKV_ISA_SUFFIXES)
    list(APPEND SWIFTKV_ISA_FLAGS_${isa} -Wno-uninitialized -Wno-maybe-uninitialized)
  endforeach()
endif()

# Gives each file named after an instruction set its flags; on other processors such files are left
# out.
function(swiftkv_set_isa_flags sources_variable)
  set(sources ${${sources_variable}})
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    list(FILTER sources EXCLUDE REGEX "_(avx|amx)[a-z0-9]*\\.cpp$")
    set(${sources_variable} ${sources} PARENT_SCOPE)
    return()
  endif()
  foreach(source IN LISTS sources)
    foreach(isa IN LISTS SWIFTKV_ISA_SUFFIXES)
      if(source MATCHES "_${isa}\\.cpp$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS
                                    "${SWIFTKV_ISA_FLAGS_${isa}}")
      endif()
    endforeach()
  endforeach()
endfunction()

function(swiftkv_add_layer name)
  cmake_parse_arguments(LAYER "" "MAIN" "LAYERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(folder "${PROJECT_SOURCE_DIR}/src/${name}")
  set(target swiftkv_${name})

  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(REMOVE_ITEM sources "${folder}/main.cpp")
  swiftkv_set_isa_flags(sources)

  set(include_root "${PROJECT_BINARY_DIR}/layers/${name}")
  file(MAKE_DIRECTORY "${include_root}")
  file(CREATE_LINK "${folder}" "${include_root}/${name}" SYMBOLIC)

  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${LAYER_PRIVATE_DEPENDS})
    # Not for tests: GoogleTest gives its generated functions parameters with everyday names.
    target_compile_options(${target} PRIVATE -Wshadow)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  list(TRANSFORM LAYER_LAYERS PREPEND swiftkv_)
  target_include_directories(${target} ${scope} "${include_root}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${target} ${scope} swiftkv_build_settings ${LAYER_LAYERS} ${LAYER_DEPENDS})
  target_compile_definitions(${target} ${scope} SWIFTKV_VERSION="${PROJECT_VERSION}")

  if(LAYER_MAIN AND EXISTS "${folder}/main.cpp")
    add_executable(${LAYER_MAIN} "${folder}/main.cpp")
    target_link_libraries(${LAYER_MAIN} PRIVATE ${target})
    install(TARGETS ${LAYER_MAIN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  set_property(GLOBAL APPEND PROPERTY SWIFTKV_LAYERS ${name})
  set_property(GLOBAL PROPERTY SWIFTKV_LAYER_DEPENDS_${name} ${LAYER_DEPENDS} ${LAYER_PRIVATE_DEPENDS})
endfunction()
