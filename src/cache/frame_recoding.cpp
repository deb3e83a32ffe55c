// SPDX-License-Identifier: Apache-2.0
// Runs pages through a pair of codecs, plane by plane.
#include "cache/frame_recoding.h"

#include <cstring>

#include "formats/plane_transcoding.h"

namespace swiftkv {
namespace {

void RecodePlane(const PageCodec& from_codec, const PlaneView& from, const PageCodec& to_codec,
                 const MutablePlane& to, SlotRange slots) {
  if (&from_codec != &to_codec) {
    TranscodePlane(from_codec, from, to_codec, to, slots);
    return;
  }
  std::memcpy(to.data, from.data, from_codec.PlaneBytes(from.head_dim));
  if (from.scales == nullptr) return;
  std::memcpy(to.scales, from.scales, kPageTokens * sizeof(*from.scales));
}

}  // namespace

void RecodeFrame(const CacheGeometry& geometry, std::size_t group_index,
                 LaidOutFrame<const std::byte> from, LaidOutFrame<std::byte> to, int num_slots) {
  const LayerGroup& group = geometry.groups[group_index];
  const int head_dim = group.shape.head_dim;
  const auto heads = static_cast<std::size_t>(group.shape.kv_heads);
  const SlotRange slots = {0, num_slots};
  for (const int layer : group.layers) {
    const LayerPlace& source = from.layout->places[static_cast<std::size_t>(layer)];
    const LayerPlace& target = to.layout->places[static_cast<std::size_t>(layer)];
    const std::byte* const pages = from.data + source.layer_offset;
    std::byte* const new_pages = to.data + target.layer_offset;
    if (source.format == target.format) {
      std::memcpy(new_pages, pages, heads * source.head_stride);
      continue;
    }
    for (std::size_t head = 0; head < heads; ++head) {
      const std::byte* const page = pages + head * source.head_stride;
      std::byte* const new_page = new_pages + head * target.head_stride;
      MutablePlane keys = MutableKeyPlane(target.format, target.layout, head_dim, new_page);
      keys.guide = geometry.guide(layer, head);
      RecodePlane(*source.format.key, KeyPlane(source.format, source.layout, head_dim, page),
                  *target.format.key, keys, slots);
      RecodePlane(*source.format.value, ValuePlane(source.format, source.layout, head_dim, page),
                  *target.format.value,
                  MutableValuePlane(target.format, target.layout, head_dim, new_page), slots);
    }
  }
}

}  // namespace swiftkv
