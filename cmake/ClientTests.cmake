# SPDX-License-Identifier: Apache-2.0
# Adds the tests that drive the built server with OpenAI's Python client, which
# scripts/fetch_openai_client.py installs; without it, and without a network, they count as skipped.

find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT (Python3_FOUND AND TARGET swiftkv))
  return()
endif()

add_executable(write_tiny_model "${PROJECT_SOURCE_DIR}/tests/clients/write_tiny_model.cpp")
target_link_libraries(write_tiny_model PRIVATE swiftkv_test_support swiftkv_base)
set_target_properties(write_tiny_model PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

add_test(NAME clients
  COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tests/clients/run_client_tests.py"
          --program $<TARGET_FILE:swiftkv> --model-writer $<TARGET_FILE:write_tiny_model>
          --report "${PROJECT_BINARY_DIR}/test-results/clients.xml")
set_tests_properties(clients PROPERTIES LABELS clients TIMEOUT 900 RUN_SERIAL ON)
