// SPDX-License-Identifier: Apache-2.0
// Describes the phi3 family: gate and up in one matrix, usually Q, K and V too, and LongRoPE.
//
// attention.sliding_window is not applied: files in use carry it for models that were trained
// without, and libllama does not apply it either, so that ours and its logits agree.
#include "base/status_macros.h"
#include "model/decoder_metadata.h"
#include "model/families.h"

namespace swiftkv {

Result<DecoderSpec> DescribePhi3(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(file, limits));
  spec.fused_gate_up = true;
  for (DecoderLayerSpec& layer : spec.layers) layer.rope.layout = RopeLayout::kSplitHalf;
  SKV_RETURN_IF_ERROR(SetLongRopeFactors(file, limits, &spec));
  return spec;
}

}  // namespace swiftkv
