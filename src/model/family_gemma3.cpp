// SPDX-License-Identifier: Apache-2.0
// Describes the gemma3 family: windowed layers with a rope of their own between global ones.
#include <cmath>

#include "base/status_macros.h"
#include "model/decoder_metadata.h"
#include "model/families.h"

namespace swiftkv {
namespace {

constexpr int kDefaultPattern = 6;          // five windowed layers, then a global one
constexpr float kLocalRopeBase = 10000.0F;  // of windowed layers, which are never scaled
constexpr std::size_t kLayersOf27B = 62;

// Returns for each layer whether it is windowed.
Result<std::vector<bool>> ReadPattern(const GgufFile& file, std::size_t layers) {
  const std::string key = "gemma3.attention.sliding_window_pattern";
  SKV_ASSIGN_OR_RETURN(const auto values, file.FindInts(key, {0, 1 << 20}));
  std::vector<bool> windowed(layers);
  if (values && values->size() > 1) {
    if (values->size() != layers) {
      return file.Damaged("key '" + key + "' must say one thing for each of the " +
                          std::to_string(layers) + " layers, not " +
                          std::to_string(values->size()));
    }
    for (std::size_t i = 0; i < layers; ++i) windowed[i] = (*values)[i] != 0;
    return windowed;
  }
  if (values && values->empty()) return file.Damaged("key '" + key + "' is an empty array");
  const auto pattern = static_cast<std::size_t>(values ? values->front() : kDefaultPattern);
  for (std::size_t i = 0; i < layers; ++i) {
    windowed[i] = pattern == 0 || i % pattern < pattern - 1;
  }
  return windowed;
}

Status SetWindows(const GgufFile& file, DecoderSpec* spec) {
  SKV_ASSIGN_OR_RETURN(const auto window,
                       file.FindInt("gemma3.attention.sliding_window", {0, 1 << 30}));
  if (window.value_or(0) == 0) return Status::Ok();
  SKV_ASSIGN_OR_RETURN(const auto windowed, ReadPattern(file, spec->layers.size()));
  SKV_ASSIGN_OR_RETURN(const double base, ReadRopeNumber(file, "gemma3.rope.freq_base_swa",
                                                         kLocalRopeBase, kRopeBaseRange));
  for (std::size_t i = 0; i < spec->layers.size(); ++i) {
    if (!windowed[i]) continue;
    DecoderLayerSpec& layer = spec->layers[i];
    layer.window = static_cast<int>(*window);
    layer.rope.base = static_cast<float>(base);
    layer.rope.frequency_scale = 1.0F;
  }
  return Status::Ok();
}

}  // namespace

Result<DecoderSpec> DescribeGemma3(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(file, limits));
  spec.qk_norm = true;
  spec.post_norms = true;
  spec.activation = Activation::kGelu;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_dim));
  // The largest model scales queries by its width per head instead of by the head's size.
  if (spec.layers.size() == kLayersOf27B) {
    const int width_per_head = spec.hidden_dim / spec.layers.front().num_heads;
    spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(width_per_head));
  }
  SKV_ASSIGN_OR_RETURN(const auto softcap, file.FindNumber("gemma3.final_logit_softcapping"));
  spec.logit_softcap = static_cast<float>(softcap.value_or(0.0));
  for (DecoderLayerSpec& layer : spec.layers) layer.rope.layout = RopeLayout::kSplitHalf;
  SKV_RETURN_IF_ERROR(SetWindows(file, &spec));
  return spec;
}

}  // namespace swiftkv
