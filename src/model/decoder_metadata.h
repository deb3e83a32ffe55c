// SPDX-License-Identifier: Apache-2.0
// Reads the metadata that all decoder families share into a DecoderSpec.
//
// Keys are "<general.architecture>.<name>" as docs/gguf.md of the ggml project lists them. Families
// start from ReadDecoderSpec and change what is theirs.
#pragma once

#include <string>

#include "model/architecture.h"
#include "model/decoder_spec.h"
#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns a spec with full attention in all layers, one rope for all of them, attention scale
// 1 / sqrt(head_dim), SiLU, no norms but the two usual ones, and no rope factors. Errors: DataLoss
// for missing or senseless metadata; Unsupported for experts, ALiBi, clamped or non-causal
// attention, K and V of different sizes, or an unknown rope scaling.
Result<DecoderSpec> ReadDecoderSpec(const GgufFile& file, const DecodeLimits& limits);

// What a number of rope may be: outside, angles overflow single precision and logits become NaN.
struct RopeRange {
  double min = 0.0;
  double max = 0.0;
};
inline constexpr RopeRange kRopeBaseRange = {1.0, 1e12};

// Returns the number under `key`, or `absent` where it is missing. Errors: DataLoss outside
// `range`.
Result<double> ReadRopeNumber(const GgufFile& file, const std::string& key, double absent,
                              RopeRange range);

// Reads rope of `<architecture>.rope.*` for heads of `head_dim` channels. `context_length` is the
// model's.
Result<RopeSpec> ReadRopeSpec(const GgufFile& file, const std::string& architecture, int head_dim,
                              int context_length);

// Gives every layer the long or the short rope factors, whichever the context asks for (LongRoPE:
// long ones above the original context). Errors: DataLoss where the rope scaling is "longrope" and
// the tensor is absent.
Status SetLongRopeFactors(const GgufFile& file, const DecodeLimits& limits, DecoderSpec* spec);

}  // namespace swiftkv
