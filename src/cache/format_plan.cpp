// SPDX-License-Identifier: Apache-2.0
// Applies the guard rails of formats with few bits.
#include "cache/format_plan.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "formats/int8_codec.h"

namespace swiftkv {
namespace {

constexpr std::size_t kGuardedLayers = 2;  // at either end of the model
constexpr double kFewestOpenBits = 8;

const PageCodec* OpenCodec(const PageCodec* codec) {
  return codec->info().bits_per_value < kFewestOpenBits ? &kInt8Codec : codec;
}

}  // namespace

Result<FormatPlan> FormatPlan::For(std::span<const LayerShape> layers,
                                   const std::string& key_format, const std::string& value_format) {
  SKV_ASSIGN_OR_RETURN(const FormatMap asked, FormatMap::Uniform(layers, key_format, value_format));
  FormatPlan plan;
  plan.asked = asked.layer(0);
  const PageFormat open = {OpenCodec(plan.asked.key), OpenCodec(plan.asked.value)};
  plan.open = FormatMap(std::vector<PageFormat>(layers.size(), open));
  std::vector<PageFormat> sealed(layers.size(), plan.asked);
  for (std::size_t i = 0; i < std::min(kGuardedLayers, layers.size()); ++i) {
    sealed[i] = sealed[layers.size() - 1 - i] = open;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].window > 0 && layers[i].window <= kOpenTokens + 1) sealed[i] = open;
  }
  plan.sealed = FormatMap(std::move(sealed));
  return plan;
}

}  // namespace swiftkv
