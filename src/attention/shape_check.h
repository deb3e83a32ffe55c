// SPDX-License-Identifier: Apache-2.0
// Refuses shapes of attention that no backend can mean.
#pragma once

#include "swiftkv/attention.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Errors: InvalidArgument for sizes below 1, a negative window or softcap, or query heads that the
// kv heads do not divide.
Status CheckShape(const AttentionShape& shape);

}  // namespace swiftkv
