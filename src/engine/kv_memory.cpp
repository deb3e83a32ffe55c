// SPDX-License-Identifier: Apache-2.0
// Adds up page bytes over layers, and divides the machine's memory.
#include "engine/kv_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/saturating.h"
#include "base/status_macros.h"
#include "cache/cache_geometry.h"
#include "cache/format_plan.h"
#include "formats/codec_table.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kLeastHeadroomBytes = 64ULL << 20;
constexpr std::uint64_t kHeadroomFraction = 16;

// Returns the tokens of [begin, end), 0 where it is empty.
std::int64_t SealedTokens(std::int64_t begin, std::int64_t end) {
  return std::max<std::int64_t>(0, end - begin);
}

}  // namespace

Result<KvFootprint> KvFootprint::Make(std::span<const LayerShape> layers,
                                      std::string_view key_format, std::string_view value_format) {
  PageFormat format;
  SKV_ASSIGN_OR_RETURN(format.key, FindCodec(key_format));
  SKV_ASSIGN_OR_RETURN(format.value, FindCodec(value_format));
  for (const LayerShape& layer : layers) {
    for (const PageCodec* codec : {format.key, format.value}) {
      if (!codec->ServesHeadDim(layer.head_dim)) {
        return Status::Unsupported(
            fmt::format("KV format {} does not serve the model's head size; choose another format "
                        "for head size {}",
                        codec->info().name, layer.head_dim));
      }
    }
  }
  KvFootprint footprint;
  if (layers.empty()) return footprint;
  SKV_ASSIGN_OR_RETURN(const FormatPlan plan,
                       FormatPlan::For(layers, format.key->info().name, format.value->info().name));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerShape& layer = layers[i];
    const auto heads = static_cast<std::uint64_t>(layer.kv_heads);
    const int index = static_cast<int>(i);
    const Layers one = {
        .count = 1,
        .page_bytes = heads * PageLayout::For(plan.open.layer(index), layer.head_dim).bytes,
        .sealed_page_bytes =
            heads * PageLayout::For(plan.sealed.layer(index), layer.head_dim).bytes,
        .token_values = heads * 2 * static_cast<std::uint64_t>(layer.head_dim),
        .window = layer.window};
    const auto alike = std::find_if(footprint.layers_.begin(), footprint.layers_.end(),
                                    [&one](const Layers& known) { return known.IsLike(one); });
    if (alike != footprint.layers_.end()) {
      ++alike->count;
    } else {
      footprint.layers_.push_back(one);
    }
  }
  return footprint;
}

bool KvFootprint::ShrinksWithAge() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Layers& layer) {
    return layer.window > 0 || layer.sealed_page_bytes != layer.page_bytes;
  });
}

bool KvFootprint::Layers::IsLike(const Layers& other) const {
  return page_bytes == other.page_bytes && sealed_page_bytes == other.sealed_page_bytes &&
         token_values == other.token_values && window == other.window;
}

std::uint64_t KvFootprint::TokenBytes() const {
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) bytes += layer.count * layer.sealed_page_bytes;
  return bytes / kPageTokens;
}

std::int64_t KvFootprint::HeldTokens(const Layers& layer, std::int64_t tokens) {
  return layer.window > 0 ? std::min<std::int64_t>(tokens, layer.window) : tokens;
}

std::uint64_t KvFootprint::FilledBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) {
    const std::int64_t held = HeldTokens(layer, tokens);
    const std::int64_t sealed = SealedTokens(std::max<std::int64_t>(kPageTokens, tokens - held),
                                             SealedEnd(tokens) * kPageTokens);
    bytes += layer.count * ((layer.page_bytes * static_cast<std::uint64_t>(held - sealed) +
                             layer.sealed_page_bytes * static_cast<std::uint64_t>(sealed)) /
                            kPageTokens);
  }
  return bytes;
}

// Window layers take most while they still hold block 0, which is never sealed: beyond that, no
// block is added that does not replace another. A block is sealed after the last of its successors
// is stored, hence the length before the last token.
std::uint64_t KvFootprint::PageBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) {
    std::int64_t pages = BlocksFor(tokens);
    std::int64_t length = tokens;
    if (layer.window > 0 && pages > BlocksFor(layer.window)) {
      pages = BlocksFor(layer.window);
      length = pages * kPageTokens;
    }
    const auto sealed =
        static_cast<std::uint64_t>(std::max<std::int64_t>(1, SealedEnd(length - 1)) - 1);
    bytes += layer.count * (layer.page_bytes * (static_cast<std::uint64_t>(pages) - sealed) +
                            layer.sealed_page_bytes * sealed);
  }
  return bytes;
}

// While a step runs, a window layer has all that its first row sees, up to its last; the first and
// the last of these blocks may be seen in part.
std::uint64_t KvFootprint::PeakBytes(std::int64_t from, std::int64_t to, std::int64_t rows) const {
  const std::int64_t first = from / kPageTokens;
  const std::int64_t old = SealedEnd(std::max<std::int64_t>(0, to - rows));
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) {
    std::int64_t pages = std::max<std::int64_t>(0, BlocksFor(to) - first);
    std::int64_t sealed = std::max<std::int64_t>(0, old - std::max<std::int64_t>(1, first));
    if (layer.window > 0) {
      pages = std::min(pages, BlocksFor(layer.window + rows - 2) + 1);
      sealed = 0;
    }
    bytes += layer.count * (layer.page_bytes * static_cast<std::uint64_t>(pages - sealed) +
                            layer.sealed_page_bytes * static_cast<std::uint64_t>(sealed));
  }
  return bytes;
}

std::uint64_t KvFootprint::OwnBytes(std::int64_t from, std::int64_t to) const {
  const std::int64_t first = from / kPageTokens;
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) {
    std::int64_t pages = std::max<std::int64_t>(0, BlocksFor(to) - first);
    if (layer.window > 0) {
      // Blocks that a query at `to` sees, whatever else is still there.
      pages = std::min(pages, BlocksFor(to) - OldestVisibleBlock(to, layer.window));
    }
    // Of a window layer any block may be old: its newest ones are not re-encoded yet.
    const std::int64_t open =
        std::min(pages, std::max<std::int64_t>(0, BlocksFor(to) - SealedEnd(to)));
    bytes += layer.count * (layer.page_bytes * static_cast<std::uint64_t>(open) +
                            layer.sealed_page_bytes * static_cast<std::uint64_t>(pages - open));
  }
  return bytes;
}

std::uint64_t KvFootprint::ReservedBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Layers& layer : layers_) {
    bytes += layer.count * layer.page_bytes * static_cast<std::uint64_t>(BlocksFor(tokens));
  }
  return bytes;
}

double KvFootprint::BitsPerValue(std::int64_t tokens) const {
  std::uint64_t values = 0;
  for (const Layers& layer : layers_) {
    values +=
        layer.count * layer.token_values * static_cast<std::uint64_t>(HeldTokens(layer, tokens));
  }
  return 8.0 * static_cast<double>(FilledBytes(tokens)) / static_cast<double>(values);
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

AutomaticKvMemory DivideMemory(std::uint64_t available_bytes, const ModelMemory& model) {
  AutomaticKvMemory memory;
  memory.available_bytes = available_bytes;
  memory.weights_bytes = model.mapped_weights_bytes;
  memory.activation_bytes =
      SaturatingSubtract(model.activation_bytes, model.touched_activation_bytes);
  std::uint64_t rest = SaturatingSubtract(available_bytes, memory.weights_bytes);
  rest = SaturatingSubtract(rest, memory.activation_bytes);
  memory.headroom_bytes = std::max(rest / kHeadroomFraction, kLeastHeadroomBytes);
  memory.bytes = SaturatingSubtract(rest, memory.headroom_bytes);
  return memory;
}

std::uint64_t AutomaticKvBytes(std::uint64_t available_bytes, const ModelMemory& model) {
  return DivideMemory(available_bytes, model).bytes;
}

Result<std::uint64_t> ResolveKvBytes(const MemoryLimit& budget, const ModelMemory& model) {
  if (!budget.automatic) return budget.bytes;
  SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
  const AutomaticKvMemory memory = DivideMemory(available, model);
  if (memory.bytes == 0) {
    return Status::ResourceExhausted(fmt::format(
        "no memory is left for the KV cache: weights take {} and activations {}, and the machine "
        "or its cgroup has {} to give",
        FormatByteSize(memory.weights_bytes), FormatByteSize(memory.activation_bytes),
        FormatByteSize(available)));
  }
  return memory.bytes;
}

std::uint64_t KeyGuideBytes(std::span<const LayerShape> layers) {
  std::uint64_t bytes = 0;
  for (const LayerShape& layer : layers) {
    const auto dim = static_cast<std::uint64_t>(layer.head_dim);
    bytes += static_cast<std::uint64_t>(layer.kv_heads) * dim * (dim + 1) * sizeof(float);
  }
  return bytes;
}

}  // namespace swiftkv
