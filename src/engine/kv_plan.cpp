// SPDX-License-Identifier: Apache-2.0
// Counts frames by block numbers, as the cache's tables hold them.
#include "engine/kv_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/status_macros.h"
#include "cache/cache_geometry.h"
#include "cache/format_plan.h"
#include "cache/prefix_node.h"
#include "cache/sequence_set.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kMostRequests = std::int64_t{1} << 40;
constexpr double kMostBytes = 0x1p61;  // of pages: beyond, sums could pass 64 bits

std::uint64_t Unsigned(std::int64_t count) { return static_cast<std::uint64_t>(count); }

// A page whose planes may differ in size; PageLayout's where they do not.
std::uint64_t PageBytes(const PageFormat& format, const PlanLayer& layer) {
  if (layer.value_dim == layer.key_dim) return PageLayout::For(format, layer.key_dim).bytes;
  // Without V the line of scales serves K alone.
  const PageFormat stored = {format.key, layer.value_dim == 0 ? format.key : format.value};
  const PageLayout layout = PageLayout::For(stored, layer.key_dim);
  return layout.value_offset +
         (layer.value_dim == 0 ? 0 : stored.value->PlaneBytes(layer.value_dim));
}

Status CheckServes(const PageFormat& format, const PlanLayer& layer) {
  for (const auto& [codec, dim] :
       {std::pair{format.key, layer.key_dim}, std::pair{format.value, layer.value_dim}}) {
    if (dim == 0 || codec->ServesHeadDim(dim)) continue;
    return Status::InvalidArgument(
        fmt::format("format {} serves head sizes that are multiples of 16, up to 1024, not: {}",
                    codec->info().name, dim));
  }
  return Status::Ok();
}

// What one size class with so many live frames maps (cache/arena.h, cache/frame_pool.h).
struct ClassBytes {
  std::uint64_t pages = 0;
  std::uint64_t bookkeeping = 0;  // a bit and a count of owners a frame, a count an OS page
};

ClassBytes BytesOfClass(std::uint64_t frames, std::uint64_t frame_bytes) {
  const std::size_t pages = OsPages(frames * frame_bytes);
  const std::size_t bookkeeping = OsPages(frames / 8 + 8) +
                                  OsPages(frames * sizeof(std::uint32_t)) +
                                  OsPages(pages * sizeof(std::uint16_t));
  return {pages * OsPageBytes(), bookkeeping * OsPageBytes()};
}

// The index of what others may find: a name for every block, and its arrays' first pages.
std::uint64_t NameBytes(std::int64_t tokens, std::int64_t count) {
  constexpr std::size_t kArrayPages = 6;
  const std::uint64_t names = Unsigned(count * BlocksFor(tokens));
  return (OsPages(names * (sizeof(PrefixNode) + sizeof(NodeId))) + kArrayPages) * OsPageBytes();
}

}  // namespace

Result<KvPlan> KvPlan::Make(std::span<const PlanLayer> layers, const PageFormat& format) {
  std::vector<LayerShape> shapes;
  for (const PlanLayer& layer : layers) {
    SKV_RETURN_IF_ERROR(CheckServes(format, layer));
    shapes.push_back(
        {.kv_heads = layer.kv_heads, .head_dim = layer.key_dim, .window = layer.window});
  }
  KvPlan plan;
  if (layers.empty()) return plan;
  SKV_ASSIGN_OR_RETURN(const FormatPlan formats,
                       FormatPlan::For(shapes, format.key->info().name, format.value->info().name));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto group = std::find_if(plan.groups_.begin(), plan.groups_.end(),
                              [&](const Group& known) { return known.shape == layers[i]; });
    if (group == plan.groups_.end()) group = plan.groups_.insert(group, Group{layers[i]});
    const std::uint64_t heads = Unsigned(layers[i].kv_heads);
    const int index = static_cast<int>(i);
    group->open_bytes += heads * PageBytes(formats.open.layer(index), layers[i]);
    group->sealed_bytes += heads * PageBytes(formats.sealed.layer(index), layers[i]);
  }
  return plan;
}

std::int64_t KvPlan::TokensIn(const Group& group, std::int64_t tokens, double removed) {
  if (group.shape.window > 0) return tokens;
  return tokens - static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * removed));
}

// Blocks [first_block, end_block) of a sequence of `length` tokens, which has sealed its old ones.
KvPlan::Frames KvPlan::FramesOf(const Group& group, std::int64_t length, std::int64_t first_block,
                                std::int64_t end_block) {
  Frames frames;
  frames.open = std::max<std::int64_t>(0, end_block - first_block);
  if (group.sealed_bytes == group.open_bytes) return frames;
  const std::int64_t sealed_first = std::max<std::int64_t>(1, first_block);
  frames.sealed = std::max<std::int64_t>(0, std::min(end_block, SealedEnd(length)) - sealed_first);
  frames.open -= frames.sealed;
  return frames;
}

// What a sequence of `length` committed tokens holds with room up to `end`.
KvPlan::Frames KvPlan::HeldFrames(const Group& group, std::int64_t length, std::int64_t end) {
  return FramesOf(group, length, OldestVisibleBlock(length, group.shape.window), BlocksFor(end));
}

// The most that a sequence holds on its way to `tokens` tokens that come one by one.
KvPlan::Frames KvPlan::MostFrames(const Group& group, std::int64_t tokens) {
  if (tokens == 0) return {};
  if (group.shape.window == 0) return HeldFrames(group, tokens - 1, tokens);
  // Past the window only the place within a block matters; sealing starts anew at each block.
  const std::int64_t last = std::min<std::int64_t>(tokens, group.shape.window + 2 * kPageTokens);
  Frames most;
  std::uint64_t most_bytes = 0;
  for (std::int64_t end = std::max<std::int64_t>(1, last - 3 * kPageTokens); end <= last; ++end) {
    const Frames frames = HeldFrames(group, end - 1, end);
    if (BytesOf(group, frames) <= most_bytes) continue;
    most = frames;
    most_bytes = BytesOf(group, frames);
  }
  return most;
}

// Whole blocks of the prefix that its last position sees: they stay for requests to come. A
// request of `tokens` tokens has sealed those that are old by then.
KvPlan::Frames KvPlan::SharedFrames(const Group& group, std::int64_t tokens, std::int64_t prefix) {
  const std::int64_t length = prefix / kPageTokens * kPageTokens;
  return FramesOf(group, tokens - 1, OldestVisibleBlock(length, group.shape.window),
                  length / kPageTokens);
}

// Of them, what a request still holds at its end and does not pay for.
KvPlan::Frames KvPlan::LentFrames(const Group& group, std::int64_t tokens, std::int64_t prefix) {
  const std::int64_t length = prefix / kPageTokens * kPageTokens;
  const std::int64_t first = std::max(OldestVisibleBlock(length, group.shape.window),
                                      OldestVisibleBlock(tokens, group.shape.window));
  return FramesOf(group, tokens - 1, first, length / kPageTokens);
}

// `count` requests, the prefix once.
KvPlan::Frames KvPlan::AllFrames(const Group& group, const PlannedRequest& request,
                                 std::int64_t count) {
  // The last token of a prompt is always computed, so a whole prompt is never shared.
  const std::int64_t prefix =
      TokensIn(group, std::min(request.prefix_tokens, request.tokens - 1), request.removed);
  const std::int64_t tokens = TokensIn(group, request.tokens, request.removed);
  const Frames most = MostFrames(group, tokens);
  if (prefix <= 0) return {count * most.open, count * most.sealed};
  const Frames once = SharedFrames(group, tokens, prefix);
  const Frames lent = LentFrames(group, tokens, prefix);
  return {once.open + count * std::max<std::int64_t>(0, most.open - lent.open),
          once.sealed + count * std::max<std::int64_t>(0, most.sealed - lent.sealed)};
}

std::uint64_t KvPlan::BytesOf(const Group& group, const Frames& frames) {
  return Unsigned(frames.open) * group.open_bytes + Unsigned(frames.sealed) * group.sealed_bytes;
}

// What a step of a prompt takes beyond what the request holds later.
std::uint64_t KvPlan::StepBytes(const Group& group, std::int64_t tokens) {
  const std::int64_t step = std::min(kStepTokens, tokens);
  const std::uint64_t most = BytesOf(group, MostFrames(group, tokens));
  std::uint64_t beyond = 0;
  const std::int64_t past_window = group.shape.window + kPageTokens - 1;
  for (const std::int64_t length : {tokens - step, std::min(tokens - step, past_window)}) {
    const std::uint64_t bytes = BytesOf(group, HeldFrames(group, length, length + step));
    beyond = std::max(beyond, bytes - std::min(bytes, most));
  }
  return beyond;
}

std::uint64_t KvPlan::TokenBytes(double removed) const {
  double bytes = 0;
  for (const Group& group : groups_) {
    const double kept = group.shape.window > 0 ? 1.0 : 1.0 - removed;
    bytes += kept * static_cast<double>(group.sealed_bytes);
  }
  return static_cast<std::uint64_t>(bytes / kPageTokens);
}

std::uint64_t KvPlan::GrowthBytes(double removed) const {
  double bytes = 0;
  for (const Group& group : groups_) {
    if (group.shape.window > 0) continue;
    bytes += (1.0 - removed) * static_cast<double>(group.sealed_bytes);
  }
  return static_cast<std::uint64_t>(bytes / kPageTokens);
}

std::uint64_t KvPlan::RequestBytes(const PlannedRequest& request) const {
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) {
    const std::int64_t tokens = TokensIn(group, request.tokens, request.removed);
    bytes += BytesOf(group, HeldFrames(group, tokens, tokens));
  }
  return bytes;
}

std::uint64_t KvPlan::ReservedBytes(std::int64_t tokens) const {
  const std::int64_t sealed =
      std::min(tokens, std::max<std::int64_t>(0, (SealedEnd(tokens) - 1) * kPageTokens));
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) {
    bytes +=
        (group.open_bytes * Unsigned(tokens - sealed) + group.sealed_bytes * Unsigned(sealed)) /
        kPageTokens;
  }
  return bytes;
}

// Tables and slots of sequences lie on the heap.
std::uint64_t KvPlan::HeapBytes(const PlannedRequest& request, std::int64_t count) const {
  // The list of sequences doubles as it grows, tables too.
  std::uint64_t heap = std::bit_ceil(Unsigned(count)) * sizeof(Sequence);
  for (const Group& group : groups_) {
    const std::int64_t tokens = TokensIn(group, request.tokens, request.removed);
    const std::int64_t blocks = MostFrames(group, tokens).all();
    heap += Unsigned(count) *
            (sizeof(PageTable) + 2 * PageTable::RoomBytes(static_cast<std::size_t>(blocks)));
    // A policy's pages say where their 16 tokens stood.
    if (request.removed > 0 && group.shape.window == 0) {
      heap += Unsigned(count * blocks) * kPageTokens * sizeof(std::uint32_t);
    }
  }
  return OsPages(heap) * OsPageBytes();
}

KvPlan::Bound KvPlan::BoundParts(const PlannedRequest& request, std::int64_t count) const {
  std::map<std::uint64_t, std::uint64_t> frames_by_size;
  Bound bound;
  for (const Group& group : groups_) {
    const Frames all = AllFrames(group, request, count);
    frames_by_size[group.open_bytes] += Unsigned(all.open);
    frames_by_size[group.sealed_bytes] += Unsigned(all.sealed);
    bound.pages += StepBytes(group, TokensIn(group, request.tokens, request.removed));
  }
  for (const auto& [size, frames] : frames_by_size) {
    const ClassBytes bytes = BytesOfClass(frames, size);
    bound.pages += bytes.pages;
    bound.bookkeeping += bytes.bookkeeping;
  }
  bound.bookkeeping += HeapBytes(request, count);
  return bound;
}

std::uint64_t KvPlan::BookkeepingBytes(const PlannedRequest& request) const {
  return BoundParts(request, 1).bookkeeping;
}

std::uint64_t KvPlan::BoundFor(const PlannedRequest& request, std::int64_t count) const {
  if (static_cast<double>(RequestBytes(request)) * static_cast<double>(count) > kMostBytes) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  const Bound bound = BoundParts(request, count);
  return bound.pages + bound.bookkeeping + NameBytes(request.tokens, count);
}

std::int64_t KvPlan::RequestsWithin(const PlannedRequest& request, std::uint64_t bytes) const {
  if (groups_.empty() || request.tokens <= 0) return 0;
  std::int64_t fits = 0;
  std::int64_t beyond = 1;
  while (beyond < kMostRequests && BoundFor(request, beyond) <= bytes) {
    fits = beyond;
    beyond *= 2;
  }
  while (beyond - fits > 1) {
    const std::int64_t middle = fits + (beyond - fits) / 2;
    (BoundFor(request, middle) <= bytes ? fits : beyond) = middle;
  }
  return fits;
}

std::int64_t KvPlan::TokensWithin(PlannedRequest request, std::int64_t count,
                                  std::uint64_t bytes) const {
  const auto fit = [&](std::int64_t tokens) {
    request.tokens = tokens;
    return BoundFor(request, count) <= bytes;
  };
  const std::int64_t most = request.tokens;
  if (most <= 0 || fit(most)) return std::max<std::int64_t>(0, most);
  std::int64_t fits = 0;
  std::int64_t beyond = most;
  while (beyond - fits > 1) {
    const std::int64_t middle = fits + (beyond - fits) / 2;
    (fit(middle) ? fits : beyond) = middle;
  }
  return fits;
}

}  // namespace swiftkv
