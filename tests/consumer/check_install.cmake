# SPDX-License-Identifier: Apache-2.0
# Installs a build into a fresh prefix, builds the consumer project against it, and runs it. A script for cmake -P.
#
# Variables: BUILD_DIR, SOURCE_DIR (of the consumer), CXX_COMPILER, SANITIZE.

set(stage "${BUILD_DIR}/consumer")
file(REMOVE_RECURSE "${stage}")

function(run_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  message(STATUS "${what}\n${output}")
endfunction()

run_step("installing" "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${stage}/prefix")
set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()
run_step("configuring the consumer" "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${stage}/build"
  "-DCMAKE_PREFIX_PATH=${stage}/prefix" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${flags}")
run_step("building the consumer" "${CMAKE_COMMAND}" --build "${stage}/build")
run_step("running the consumer" "${stage}/build/consumer")
if(EXISTS "${BUILD_DIR}/swiftkv")
  run_step("running the installed program" "${stage}/prefix/bin/swiftkv" --version)
endif()
