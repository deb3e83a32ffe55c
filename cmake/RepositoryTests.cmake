# SPDX-License-Identifier: Apache-2.0
# Adds the tests of the repository itself: an outside project that finds the installed package.

if(EXISTS "${PROJECT_SOURCE_DIR}/tests/consumer/main.cpp")
  add_test(NAME consumer_find_package
    COMMAND "${CMAKE_COMMAND}"
      "-DBUILD_DIR=${PROJECT_BINARY_DIR}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}/tests/consumer"
      "-DCXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DSANITIZE=${SWIFTKV_SANITIZE}"
      -P "${PROJECT_SOURCE_DIR}/tests/consumer/check_install.cmake")
  set_tests_properties(consumer_find_package PROPERTIES LABELS package TIMEOUT 300)
endif()

find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME scripts
    COMMAND "${Python3_EXECUTABLE}" -B -m unittest discover -s "${PROJECT_SOURCE_DIR}/tests/scripts"
            -p "*_test.py")
  set_tests_properties(scripts PROPERTIES LABELS scripts TIMEOUT 60)
endif()
