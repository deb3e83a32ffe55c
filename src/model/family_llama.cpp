// SPDX-License-Identifier: Apache-2.0
// Describes the llama family: the plain decoder, with rope factors where the file has them.
#include "base/status_macros.h"
#include "model/decoder_metadata.h"
#include "model/families.h"

namespace swiftkv {

Result<DecoderSpec> DescribeLlama(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(file, limits));
  const RopeSpec& rope = spec.layers.front().rope;
  if (rope.dims != spec.head_dim) {
    return file.Unsupported(
        "llama models rotate whole heads: key 'llama.rope.dimension_count' "
        "must be " +
        std::to_string(spec.head_dim) + ", not " + std::to_string(rope.dims));
  }
  if (rope.scaling == RopeScaling::kLongRope) {
    SKV_RETURN_IF_ERROR(SetLongRopeFactors(file, limits, &spec));
  } else if (file.FindTensor("rope_freqs.weight") != nullptr) {
    // Llama 3.1 and later stretch low frequencies by a table that the converter worked out.
    for (DecoderLayerSpec& layer : spec.layers) layer.rope_factors_tensor = "rope_freqs.weight";
  }
  // Converters reorder llama's Q and K rows so that channels rotate in neighbouring pairs.
  for (DecoderLayerSpec& layer : spec.layers) layer.rope.layout = RopeLayout::kInterleaved;
  return spec;
}

}  // namespace swiftkv
