// SPDX-License-Identifier: Apache-2.0
// Passes a Status up the stack in one visible line.
#pragma once

#include "swiftkv/status.h"

// Returns from the enclosing function when `expression` (a Status) is not OK.
#define SKV_RETURN_IF_ERROR(expression)           \
  do {                                            \
    ::swiftkv::Status skv_status_ = (expression); \
    if (!skv_status_.ok()) [[unlikely]]           \
      return skv_status_;                         \
  } while (false)

#define SKV_ASSIGN_OR_RETURN_NAME2(line) skv_result_##line
#define SKV_ASSIGN_OR_RETURN_NAME(line) SKV_ASSIGN_OR_RETURN_NAME2(line)
#define SKV_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) [[unlikely]]                              \
    return result.status();                                   \
  target = std::move(result).value()

// SKV_ASSIGN_OR_RETURN(auto x, MakeX()): x takes the value, or the function returns the Status.
#define SKV_ASSIGN_OR_RETURN(target, expression) \
  SKV_ASSIGN_OR_RETURN_IMPL(SKV_ASSIGN_OR_RETURN_NAME(__LINE__), target, expression)
