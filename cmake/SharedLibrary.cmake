# SPDX-License-Identifier: Apache-2.0
# Builds libswiftkv.so from the layers up to engine and installs it with headers and find_package
# support.
#
# The layers' objects all go in; llama.cpp is linked in and hidden: the version script exports the
# namespace swiftkv and nothing else, so a program may link another ggml of its own beside it.

get_property(layers GLOBAL PROPERTY SWIFTKV_LAYERS)
list(REMOVE_ITEM layers server tools)

add_library(swiftkv_shared SHARED "${PROJECT_SOURCE_DIR}/cmake/version.cpp")
set_target_properties(swiftkv_shared PROPERTIES
  OUTPUT_NAME swiftkv
  EXPORT_NAME swiftkv
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/exports.map")
foreach(layer IN LISTS layers)
  get_target_property(type swiftkv_${layer} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    target_sources(swiftkv_shared PRIVATE "$<TARGET_OBJECTS:swiftkv_${layer}>")
  endif()
  get_property(dependencies GLOBAL PROPERTY SWIFTKV_LAYER_DEPENDS_${layer})
  target_link_libraries(swiftkv_shared PRIVATE ${dependencies})
endforeach()
target_compile_definitions(swiftkv_shared PRIVATE SWIFTKV_VERSION="${PROJECT_VERSION}")
target_link_options(swiftkv_shared PRIVATE
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map")
# The sanitizers' own symbols come from the program, so that a sanitized library cannot be closed.
if(NOT SWIFTKV_SANITIZE)
  target_link_options(swiftkv_shared PRIVATE LINKER:--no-undefined)
endif()
target_include_directories(swiftkv_shared INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(swiftkv_shared INTERFACE cxx_std_20)
add_library(swiftkv::swiftkv ALIAS swiftkv_shared)

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/swiftkv")
install(TARGETS swiftkv_shared EXPORT swiftkv_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT swiftkv_targets FILE swiftkv-targets.cmake NAMESPACE swiftkv::
        DESTINATION "${package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/swiftkv" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/swiftkv-config.cmake.in"
  "${PROJECT_BINARY_DIR}/swiftkv-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/swiftkv-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/swiftkv-config.cmake"
              "${PROJECT_BINARY_DIR}/swiftkv-config-version.cmake"
        DESTINATION "${package_dir}")
