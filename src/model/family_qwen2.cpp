// SPDX-License-Identifier: Apache-2.0
// Describes the qwen2 family: biases on Q, K and V, which the weights themselves tell.
#include "base/status_macros.h"
#include "model/decoder_metadata.h"
#include "model/families.h"

namespace swiftkv {

Result<DecoderSpec> DescribeQwen2(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(file, limits));
  for (DecoderLayerSpec& layer : spec.layers) layer.rope.layout = RopeLayout::kSplitHalf;
  return spec;
}

}  // namespace swiftkv
