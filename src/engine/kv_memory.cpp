// SPDX-License-Identifier: Apache-2.0
// Adds up page bytes over layers, and divides the machine's memory.
#include "engine/kv_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/status_macros.h"
#include "cache/cache_geometry.h"
#include "formats/codec_table.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kLeastHeadroomBytes = 64ULL << 20;
constexpr std::uint64_t kHeadroomFraction = 16;

std::uint64_t SubtractOrZero(std::uint64_t from, std::uint64_t what) {
  return from - std::min(from, what);
}

}  // namespace

Result<KvFootprint> KvFootprint::Make(std::span<const LayerShape> layers,
                                      std::string_view key_format, std::string_view value_format) {
  PageFormat format;
  SKV_ASSIGN_OR_RETURN(format.key, FindCodec(key_format));
  SKV_ASSIGN_OR_RETURN(format.value, FindCodec(value_format));
  KvFootprint footprint;
  for (const LayerShape& layer : layers) {
    for (const PageCodec* codec : {format.key, format.value}) {
      if (!codec->ServesHeadDim(layer.head_dim)) {
        return Status::Unsupported(
            fmt::format("KV format {} does not serve the model's head size; choose another format "
                        "for head size {}",
                        codec->info().name, layer.head_dim));
      }
    }
    const PageLayout layout = PageLayout::For(format, layer.head_dim);
    footprint.layers_.push_back(
        {.page_bytes = std::uint64_t{layout.bytes} * static_cast<std::uint64_t>(layer.kv_heads),
         .window = layer.window});
  }
  return footprint;
}

bool KvFootprint::has_windows() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const Layer& layer) { return layer.window > 0; });
}

std::uint64_t KvFootprint::TokenBytes() const {
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.page_bytes;
  return bytes / kPageTokens;
}

std::uint64_t KvFootprint::FilledBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers_) {
    const std::int64_t held =
        layer.window > 0 ? std::min<std::int64_t>(tokens, layer.window) : tokens;
    bytes += layer.page_bytes * static_cast<std::uint64_t>(held) / kPageTokens;
  }
  return bytes;
}

std::uint64_t KvFootprint::PageBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers_) {
    std::int64_t pages = BlocksFor(tokens);
    if (layer.window > 0) pages = std::min(pages, BlocksFor(layer.window));
    bytes += layer.page_bytes * static_cast<std::uint64_t>(pages);
  }
  return bytes;
}

std::int64_t KvFootprint::TokensWithin(std::uint64_t bytes) const {
  std::int64_t fits = 0;
  std::int64_t beyond = std::int64_t{1} << 31;
  while (beyond - fits > 1) {
    const std::int64_t middle = fits + (beyond - fits) / 2;
    (PageBytes(middle) <= bytes ? fits : beyond) = middle;
  }
  return fits;
}

std::uint64_t AutomaticKvBytes(std::uint64_t available_bytes, const ModelMemory& model) {
  std::uint64_t rest = SubtractOrZero(available_bytes, model.mapped_weights_bytes);
  rest = SubtractOrZero(rest, model.activation_bytes);
  return SubtractOrZero(rest, std::max(rest / kHeadroomFraction, kLeastHeadroomBytes));
}

Result<std::uint64_t> ResolveKvBytes(const MemoryLimit& budget, const ModelMemory& model) {
  if (!budget.automatic) return budget.bytes;
  SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
  const std::uint64_t bytes = AutomaticKvBytes(available, model);
  if (bytes == 0) {
    return Status::ResourceExhausted(fmt::format(
        "no memory is left for the KV cache: weights take {} and activations {}, and the machine "
        "or its cgroup has {} to give",
        FormatByteSize(model.mapped_weights_bytes), FormatByteSize(model.activation_bytes),
        FormatByteSize(available)));
  }
  return bytes;
}

}  // namespace swiftkv
