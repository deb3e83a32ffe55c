// SPDX-License-Identifier: Apache-2.0
// Declares the description of each model family, one for each file family_*.cpp.
//
// All share Architecture::Describe's contract; architecture.cpp lists them.
#pragma once

#include "model/architecture.h"

namespace swiftkv {

Result<DecoderSpec> DescribeLlama(const GgufFile& file, const DecodeLimits& limits);
Result<DecoderSpec> DescribeQwen2(const GgufFile& file, const DecodeLimits& limits);
Result<DecoderSpec> DescribeQwen3(const GgufFile& file, const DecodeLimits& limits);
Result<DecoderSpec> DescribeGemma3(const GgufFile& file, const DecodeLimits& limits);
Result<DecoderSpec> DescribePhi3(const GgufFile& file, const DecodeLimits& limits);

}  // namespace swiftkv
