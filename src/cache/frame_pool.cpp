// SPDX-License-Identifier: Apache-2.0
// Moves frames between free, private and shared.
#include "cache/frame_pool.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr int kPoison = 0xFF;

}  // namespace

Result<std::unique_ptr<FramePool>> FramePool::Create(const Options& options, MemoryBudget* budget) {
  std::unique_ptr<FramePool> pool(new FramePool(options));
  SKV_ASSIGN_OR_RETURN(pool->arena_, Arena::Create(options.frame_bytes, budget));
  SKV_ASSIGN_OR_RETURN(pool->references_,
                       ChargedArray<std::uint32_t>::Create(pool->arena_->capacity(),
                                                           "swiftkv reference counts", budget));
  return pool;
}

std::uint32_t FramePool::TryAllocate() {
  const std::uint32_t frame = arena_->TryAllocate();
  if (frame == Arena::kNoFrame) return frame;
  if (!references_.TryGrow(arena_->end_of_live())) {
    arena_->Free(&frame, 1);
    return Arena::kNoFrame;
  }
  references_[frame] = 1;
  if (options_.poison) std::memset(arena_->Frame(frame), kPoison, options_.frame_bytes);
  return frame;
}

void FramePool::AddReference(std::uint32_t frame) {
  SKV_CHECK(references_[frame] > 0, "only a live frame can be shared");
  if (++references_[frame] == 2) ++shared_frames_;
}

void FramePool::Release(std::span<const std::uint32_t> frames) {
  constexpr std::size_t kBatch = 256;
  std::array<std::uint32_t, kBatch> orphans;
  std::size_t count = 0;
  for (const std::uint32_t frame : frames) {
    SKV_CHECK(frame < references_.size() && references_[frame] > 0);
    const std::uint32_t left = --references_[frame];
    if (left == 1) --shared_frames_;
    if (left != 0) continue;
    orphans[count++] = frame;
    if (count < kBatch) continue;
    Free(orphans);
    count = 0;
  }
  Free({orphans.data(), count});
}

void FramePool::Free(std::span<const std::uint32_t> frames) {
  if (options_.poison) {
    for (const std::uint32_t frame : frames) {
      std::memset(arena_->Frame(frame), kPoison, options_.frame_bytes);
    }
  }
  arena_->Free(frames.data(), frames.size());
  references_.Shrink(arena_->end_of_live());
}

std::uint64_t FramePool::private_bytes() const {
  return std::uint64_t{arena_->live_frames() - shared_frames_} * options_.frame_bytes;
}

std::uint64_t FramePool::shared_bytes() const {
  return std::uint64_t{shared_frames_} * options_.frame_bytes;
}

std::uint64_t FramePool::free_bytes() const {
  return arena_->mapped_bytes() - std::uint64_t{arena_->live_frames()} * options_.frame_bytes;
}

std::uint64_t FramePool::metadata_bytes() const {
  return arena_->metadata_bytes() + references_.charged_bytes();
}

void FramePool::CheckInvariants(std::span<const std::uint32_t> expected) const {
  arena_->CheckInvariants();
  SKV_CHECK(expected.size() == arena_->end_of_live());
  SKV_CHECK(references_.size() == arena_->end_of_live());
  std::uint32_t shared = 0;
  for (std::uint32_t frame = 0; frame < expected.size(); ++frame) {
    SKV_CHECK(references_[frame] == expected[frame], "a frame counts its owners wrongly");
    SKV_CHECK((expected[frame] > 0) == arena_->IsLive(frame), "a frame lives without an owner");
    if (expected[frame] > 1) ++shared;
  }
  SKV_CHECK(shared == shared_frames_);
}

}  // namespace swiftkv
