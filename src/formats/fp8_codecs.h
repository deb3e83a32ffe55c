// SPDX-License-Identifier: Apache-2.0
// Declares the codecs of formats fp8_e4m3 and fp8_e5m2 (docs/page_format.md).
#pragma once

#include "formats/scaled_codec.h"

namespace swiftkv {

extern const ScaledCodec kFp8E4m3Codec;
extern const ScaledCodec kFp8E5m2Codec;

}  // namespace swiftkv
