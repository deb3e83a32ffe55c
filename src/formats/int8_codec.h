// SPDX-License-Identifier: Apache-2.0
// Declares the codec of format int8 (docs/page_format.md).
#pragma once

#include "formats/scaled_codec.h"

namespace swiftkv {

extern const ScaledCodec kInt8Codec;

}  // namespace swiftkv
