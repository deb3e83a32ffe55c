// SPDX-License-Identifier: Apache-2.0
// Lays pages out layer by layer, head by head, without padding.
#include "cache/frame_layout.h"

namespace swiftkv {

FrameLayout PlaceLayers(const LayerGroup& group, int group_index, const FormatMap& formats) {
  FrameLayout frame;
  for (const int layer : group.layers) {
    LayerPlace place;
    place.group = group_index;
    place.format = formats.layer(layer);
    place.layout = PageLayout::For(place.format, group.shape.head_dim);
    place.layer_offset = frame.frame_bytes;
    place.head_stride = place.layout.bytes;
    frame.frame_bytes += place.head_stride * static_cast<std::size_t>(group.shape.kv_heads);
    frame.places.push_back(place);
  }
  return frame;
}

}  // namespace swiftkv
