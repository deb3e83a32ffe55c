# SPDX-License-Identifier: Apache-2.0
# Builds and installs llama.cpp's own programs, so that they can be measured beside ours on equal
# flags.

set(peers llama-bench llama-server llama-cli llama-completion llama-quantize llama-perplexity
    llama-batched-bench)
add_custom_target(swiftkv_llama_peers ALL)
foreach(peer IN LISTS peers)
  if(TARGET ${peer})
    add_dependencies(swiftkv_llama_peers ${peer})
    install(PROGRAMS "$<TARGET_FILE:${peer}>" DESTINATION bin)
  else()
    message(STATUS "This llama.cpp tree has no ${peer}; it is left out")
  endif()
endforeach()
