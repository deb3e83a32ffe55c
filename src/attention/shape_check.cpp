// SPDX-License-Identifier: Apache-2.0
// Refuses shapes of attention that no backend can mean.
#include "attention/shape_check.h"

#include <string>

namespace swiftkv {

Status CheckShape(const AttentionShape& shape) {
  if (shape.num_kv_heads < 1) {
    return Status::InvalidArgument("attention needs at least one kv head, not " +
                                   std::to_string(shape.num_kv_heads));
  }
  if (shape.num_heads < 1 || shape.num_heads % shape.num_kv_heads != 0) {
    return Status::InvalidArgument("the number of query heads must be a multiple of " +
                                   std::to_string(shape.num_kv_heads) + " kv heads, not " +
                                   std::to_string(shape.num_heads));
  }
  if (shape.head_dim < 1) {
    return Status::InvalidArgument("a head has at least one value, not " +
                                   std::to_string(shape.head_dim));
  }
  if (shape.window < 0) {
    return Status::InvalidArgument("a window is 0 (none) or a number of tokens, not " +
                                   std::to_string(shape.window));
  }
  if (!(shape.softcap >= 0)) {
    return Status::InvalidArgument("a softcap is 0 (none) or positive, not " +
                                   std::to_string(shape.softcap));
  }
  return Status::Ok();
}

}  // namespace swiftkv
