// SPDX-License-Identifier: Apache-2.0
// Describes the qwen3 family: norms on every head of Q and K before rope.
#include "base/status_macros.h"
#include "model/decoder_metadata.h"
#include "model/families.h"

namespace swiftkv {

Result<DecoderSpec> DescribeQwen3(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(file, limits));
  spec.qk_norm = true;
  for (DecoderLayerSpec& layer : spec.layers) layer.rope.layout = RopeLayout::kSplitHalf;
  return spec;
}

}  // namespace swiftkv
