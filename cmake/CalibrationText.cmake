# SPDX-License-Identifier: Apache-2.0
# Puts data/calibration.txt into the program, with its SHA-256, which is the text's version.

set(calibration_text_file "${PROJECT_SOURCE_DIR}/data/calibration.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${calibration_text_file}")
file(READ "${calibration_text_file}" SWIFTKV_CALIBRATION_TEXT)
file(SHA256 "${calibration_text_file}" SWIFTKV_CALIBRATION_SHA256)
configure_file("${PROJECT_SOURCE_DIR}/cmake/calibration_text.cpp.in"
               "${PROJECT_BINARY_DIR}/generated/calibration_text.cpp" @ONLY)
target_sources(swiftkv_tools PRIVATE "${PROJECT_BINARY_DIR}/generated/calibration_text.cpp")
