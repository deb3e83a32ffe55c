// SPDX-License-Identifier: Apache-2.0
// Places the pages of a layer group within a frame (docs/page_format.md, "Frame").
//
// PlaceLayers is the only code that knows the order of pages in a frame; kernels read the strides
// that it gives.
#pragma once

#include <cstddef>
#include <vector>

#include "cache/format_map.h"
#include "cache/layer_groups.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {

// Where the pages of one layer lie in its group's frames.
struct LayerPlace {
  int group = 0;
  std::size_t layer_offset = 0;  // bytes from the frame's start to the page of kv head 0
  std::size_t head_stride = 0;   // bytes between the pages of two kv heads
  PageFormat format;
  PageLayout layout;
};

struct FrameLayout {
  std::size_t frame_bytes = 0;     // a multiple of 64
  std::vector<LayerPlace> places;  // one per layer of the group, in its order
};

// Lays out the frames of `group`, number `group_index`.
FrameLayout PlaceLayers(const LayerGroup& group, int group_index, const FormatMap& formats);

}  // namespace swiftkv
