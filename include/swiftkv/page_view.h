// SPDX-License-Identifier: Apache-2.0
// Describes pages to kernels as plain data: an index and an arena base, never a pointer per page.
// Layer: cache.
//
// Page p of kv head h lies at
//     base + frames[p] * frame_stride + layer_offset + (h - first_head) * head_stride
// A dense run covers all kv heads of a layer, and its tokens have consecutive positions. A
// compressed segment gives one run per kv head, because heads keep different tokens, and
// `positions` then holds the original position of every slot. Views are built by the thread that
// owns the cache, stay valid until the cache is next changed, and own nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "swiftkv/page_layout.h"

namespace swiftkv {

template <typename Byte>
struct BasicPageRun {
  Byte* base = nullptr;                   // the size class's arena
  const std::uint32_t* frames = nullptr;  // [num_pages]
  std::size_t frame_stride = 0;           // bytes between frames
  std::size_t layer_offset = 0;  // bytes from a frame's start to this layer's first page in the run
  std::size_t head_stride = 0;   // bytes between the pages of two kv heads
  int num_pages = 0;
  int num_tokens = 0;  // valid slots; only the last page may be partial
  int first_head = 0;  // kv heads [first_head, end_head) lie in this run
  int end_head = 0;
  std::int64_t first_position = 0;  // logical position of slot 0; a multiple of 16 for dense runs
  // [num_tokens] original positions, rising; null for a dense run
  const std::int32_t* positions = nullptr;
  PageFormat format;
  PageLayout layout;

  Byte* Page(int page, int head) const {
    return base + static_cast<std::size_t>(frames[page]) * frame_stride + layer_offset +
           static_cast<std::size_t>(head - first_head) * head_stride;
  }
};

using PageRun = BasicPageRun<const std::byte>;
using MutablePageRun = BasicPageRun<std::byte>;

}  // namespace swiftkv
