// SPDX-License-Identifier: Apache-2.0
// Reads rotary embedding metadata: base, scaling (linear, YaRN, LongRoPE) and factor tensors.
#include <fmt/format.h>

#include <cmath>

#include "base/status_macros.h"
#include "model/decoder_metadata.h"

namespace swiftkv {
namespace {

struct ScalingName {
  const char* name;
  RopeScaling scaling;
};

constexpr ScalingName kScalingNames[] = {
    {"none", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear},
    {"yarn", RopeScaling::kYarn},
    {"longrope", RopeScaling::kLongRope},
};

Result<RopeScaling> ReadScaling(const GgufFile& file, const std::string& key) {
  SKV_ASSIGN_OR_RETURN(const auto name, file.FindString(key));
  if (!name) return RopeScaling::kLinear;  // by a factor of 1 unless another key says more
  std::string names;
  for (const ScalingName& row : kScalingNames) {
    if (*name == row.name) return row.scaling;
    names += std::string(names.empty() ? "" : ", ") + row.name;
  }
  return file.Unsupported("rope scalings supported are " + names + "; key '" + key + "' is '" +
                          *name + "'");
}

// Wide of any model: published factors lie between 1 and 64, attention factors between 0.7 and 1.5.
constexpr RopeRange kFactorRange = {1e-3, 1e6};
constexpr RopeRange kAttentionFactorRange = {1e-3, 1e3};

// YaRN scales attention by 1 + 0.1 ln(factor) (arXiv 2309.00071, section 3.4), and so does
// ggml_rope_ext by itself whenever its extrapolation factor is not 0: the factor given to it is
// what makes both agree.
float YarnAttentionFactor(float frequency_scale) {
  const float factor = 1.0F / frequency_scale;
  const float wanted = factor <= 1.0F ? 1.0F : 0.1F * std::log(factor) + 1.0F;
  return wanted / (1.0F + 0.1F * std::log(factor));
}

}  // namespace

Result<double> ReadRopeNumber(const GgufFile& file, const std::string& key, double absent,
                              RopeRange range) {
  SKV_ASSIGN_OR_RETURN(const auto value, file.FindNumber(key));
  if (!value || (*value >= range.min && *value <= range.max)) return value.value_or(absent);
  return file.Damaged(fmt::format("key '{}' must lie between {:g} and {:g}, not {}", key, range.min,
                                  range.max, file.ValueText(key)));
}

Result<RopeSpec> ReadRopeSpec(const GgufFile& file, const std::string& architecture, int head_dim,
                              int context_length) {
  const auto key = [&](const char* name) { return architecture + ".rope." + name; };
  RopeSpec rope;
  SKV_ASSIGN_OR_RETURN(const auto dims, file.FindInt(key("dimension_count"), {2, head_dim}));
  rope.dims = static_cast<int>(dims.value_or(head_dim));
  if (rope.dims % 2 != 0) {
    return file.Damaged("rope rotates pairs of channels, so key '" + key("dimension_count") +
                        "' (or the head size) must be even, not " + std::to_string(rope.dims));
  }
  SKV_ASSIGN_OR_RETURN(const double base,
                       ReadRopeNumber(file, key("freq_base"), 10000.0, kRopeBaseRange));
  rope.base = static_cast<float>(base);
  SKV_ASSIGN_OR_RETURN(rope.scaling, ReadScaling(file, key("scaling.type")));
  // Writers put 0 where there is no factor; the second name is the older one.
  const std::string factor_key =
      file.Has(key("scaling.factor")) ? key("scaling.factor") : key("scale_linear");
  SKV_ASSIGN_OR_RETURN(const auto factor, file.FindNumber(factor_key));
  const bool scales = rope.scaling != RopeScaling::kNone && factor.value_or(0.0) != 0.0;
  if (scales) {
    SKV_ASSIGN_OR_RETURN(const double divisor, ReadRopeNumber(file, factor_key, 1.0, kFactorRange));
    rope.frequency_scale = 1.0F / static_cast<float>(divisor);
  }
  SKV_ASSIGN_OR_RETURN(const auto original,
                       file.FindInt(key("scaling.original_context_length"), {0, 1 << 30}));
  rope.original_context = static_cast<int>(original.value_or(0));
  if (rope.original_context == 0) rope.original_context = context_length;
  if (rope.scaling == RopeScaling::kYarn) {
    rope.extrapolation_factor = 1.0F;
    rope.attention_factor = YarnAttentionFactor(rope.frequency_scale);
  }
  SKV_ASSIGN_OR_RETURN(const double attention, ReadRopeNumber(file, key("scaling.attn_factor"), 1.0,
                                                              kAttentionFactorRange));
  rope.attention_factor *= static_cast<float>(attention);
  return rope;
}

Status SetLongRopeFactors(const GgufFile& file, const DecodeLimits& limits, DecoderSpec* spec) {
  const RopeSpec& rope = spec->layers.front().rope;
  const int context = limits.context > 0 ? limits.context : spec->context_length;
  const std::string tensor =
      context > rope.original_context ? "rope_factors_long.weight" : "rope_factors_short.weight";
  if (file.FindTensor(tensor) == nullptr) {
    if (rope.scaling != RopeScaling::kLongRope) return Status::Ok();
    return file.Damaged("rope scaling 'longrope' needs tensor '" + tensor + "', which is missing");
  }
  for (DecoderLayerSpec& layer : spec->layers) layer.rope_factors_tensor = tensor;
  return Status::Ok();
}

}  // namespace swiftkv
