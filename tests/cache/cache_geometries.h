// SPDX-License-Identifier: Apache-2.0
// Lists model shapes that the cache's tests run on, small and awkward ones first.
#pragma once

#include <string>
#include <vector>

#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct TestGeometry {
  std::string name;
  std::vector<LayerShape> layers;
};

inline std::vector<LayerShape> Repeat(int count, LayerShape shape) {
  return std::vector<LayerShape>(static_cast<std::size_t>(count), shape);
}

// Every `period`-th layer sees everything, the others `local.window` tokens.
inline std::vector<LayerShape> Interleave(int count, int period, LayerShape local) {
  std::vector<LayerShape> layers = Repeat(count, local);
  for (int i = period - 1; i < count; i += period) layers[static_cast<std::size_t>(i)].window = 0;
  return layers;
}

// Frames of 2 KiB: half an OS page.
inline TestGeometry OneSmallHead() { return {"one_small_head", Repeat(1, {1, 32, 0})}; }
// Frames of 18 KiB.
inline TestGeometry ThreeHeads() { return {"three_heads", Repeat(3, {3, 32, 0})}; }
// Pages of 4 KiB, frames of 16.
inline TestGeometry TwoByTwo() { return {"two_by_two", Repeat(2, {2, 64, 0})}; }
// Two groups with frames of 6 and 3 KiB, windows of less than two blocks.
inline TestGeometry ShortWindow() { return {"short_window", Interleave(3, 3, {1, 48, 21})}; }
// Every layer slides, by an exact number of blocks.
inline TestGeometry AllSliding() { return {"all_sliding", Repeat(2, {2, 16, 48})}; }
// Two groups in one size class.
inline TestGeometry EqualFrames() { return {"equal_frames", Interleave(4, 2, {1, 32, 40})}; }
// Two layers between those that are never sealed.
inline TestGeometry SixLayers() { return {"six_layers", Repeat(6, {2, 32, 0})}; }
// Windows that hold sealed blocks; one layer of the two without windows seals.
inline TestGeometry LongWindow() { return {"long_window", Interleave(8, 4, {1, 32, 400})}; }

// SmolLM2-135M: frames of 360 KiB.
inline TestGeometry SmolLm2() { return {"smollm2", Repeat(30, {3, 64, 0})}; }
// Gemma 3 270M: 3 layers see everything, 15 see 512 tokens.
inline TestGeometry Gemma3() { return {"gemma3", Interleave(18, 6, {1, 256, 512})}; }

}  // namespace swiftkv
