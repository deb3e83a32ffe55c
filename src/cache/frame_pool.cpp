// SPDX-License-Identifier: Apache-2.0
// Moves frames between free, private and shared.
#include "cache/frame_pool.h"

#include <algorithm>
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
  SKV_ASSIGN_OR_RETURN(pool->arena_,
                       Arena::Create(options.frame_bytes, budget, options.huge_pages));
  SKV_ASSIGN_OR_RETURN(pool->references_,
                       ChargedArray<std::uint32_t>::Create(pool->arena_->capacity(),
                                                           "swiftkv reference counts", budget));
  SKV_ASSIGN_OR_RETURN(
      pool->twins_, ChargedArray<Twin>::Create(pool->arena_->capacity(), "swiftkv twins", budget));
  SKV_ASSIGN_OR_RETURN(
      pool->keeper_tags_,
      ChargedArray<std::uint32_t>::Create(pool->arena_->capacity(), "swiftkv kept frames", budget));
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
  const std::uint32_t tag = keeper_tag(frame);
  SKV_CHECK(references_[frame] > 0 || tag != 0, "only a live frame can be shared");
  const std::uint32_t owners = ++references_[frame];
  if (owners == 2) ++shared_frames_;
  if (owners != 1) return;
  --cached_frames_;
  options_.keeper->FrameIsTaken(tag);
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
    if (const std::uint32_t tag = keeper_tag(frame); tag != 0) {
      ++cached_frames_;
      options_.keeper->FrameIsIdle(tag);
      continue;
    }
    orphans[count++] = frame;
    if (count < kBatch) continue;
    Free(orphans);
    count = 0;
  }
  Free({orphans.data(), count});
}

void FramePool::Free(std::span<const std::uint32_t> frames) {
  if (num_twins_ > 0) {
    for (const std::uint32_t frame : frames) DropTwin(frame);
  }
  if (options_.poison) {
    for (const std::uint32_t frame : frames) {
      std::memset(arena_->Frame(frame), kPoison, options_.frame_bytes);
    }
  }
  arena_->Free(frames.data(), frames.size());
  references_.Shrink(arena_->end_of_live());
  ShrinkTwins();
  ShrinkKeeperTags();
}

bool FramePool::TryKeep(std::uint32_t frame, std::uint32_t tag) {
  SKV_CHECK(references_[frame] > 0 && keeper_tag(frame) == 0 && tag != 0);
  if (!keeper_tags_.TryGrow(std::max<std::size_t>(keeper_tags_.size(), frame + std::size_t{1}))) {
    return false;
  }
  keeper_tags_[frame] = tag;
  ++kept_frames_;
  return true;
}

void FramePool::Forget(std::uint32_t frame) {
  SKV_CHECK(keeper_tag(frame) != 0, "the keeper forgets what it holds");
  keeper_tags_[frame] = 0;
  --kept_frames_;
  if (references_[frame] != 0) {
    ShrinkKeeperTags();
    return;
  }
  --cached_frames_;
  Free({&frame, 1});
}

void FramePool::ShrinkKeeperTags() {
  const std::size_t end = kept_frames_ == 0 ? 0 : arena_->end_of_live();
  keeper_tags_.Shrink(std::min(keeper_tags_.size(), end));
}

FramePool::Twin FramePool::OwnTwin(std::uint32_t frame) const {
  if (twin(frame) == Arena::kNoFrame) return {};
  const Twin& other = twins_[frame];
  return other.pool->IsWritable(other.frame) ? other : Twin{};
}

bool FramePool::TrySetTwin(std::uint32_t frame, FramePool* pool, std::uint32_t other) {
  SKV_CHECK(references_[frame] > 0 && twin(frame) == Arena::kNoFrame);
  if (!twins_.TryGrow(std::max<std::size_t>(twins_.size(), frame + std::size_t{1}))) return false;
  twins_[frame] = {pool, other};
  pool->AddReference(other);
  ++num_twins_;
  return true;
}

void FramePool::DropTwin(std::uint32_t frame) {
  if (twin(frame) == Arena::kNoFrame) return;
  const Twin released = twins_[frame];
  twins_[frame] = {};
  --num_twins_;
  released.pool->Release({&released.frame, 1});
  ShrinkTwins();
}

void FramePool::ShrinkTwins() {
  const std::size_t end = num_twins_ == 0 ? 0 : arena_->end_of_live();
  twins_.Shrink(std::min(twins_.size(), end));
}

void FramePool::CountTwins(const FramePool& pool, std::span<std::uint32_t> owners) const {
  for (std::size_t frame = 0; frame < twins_.size(); ++frame) {
    if (twins_[frame].pool != &pool) continue;
    SKV_CHECK(twins_[frame].frame < owners.size(), "a twin lies beyond its pool");
    ++owners[twins_[frame].frame];
  }
}

std::uint64_t FramePool::private_bytes() const {
  return std::uint64_t{arena_->live_frames() - shared_frames_ - cached_frames_} *
         options_.frame_bytes;
}

std::uint64_t FramePool::cached_bytes() const {
  return std::uint64_t{cached_frames_} * options_.frame_bytes;
}

std::uint64_t FramePool::shared_bytes() const {
  return std::uint64_t{shared_frames_} * options_.frame_bytes;
}

std::uint64_t FramePool::free_bytes() const {
  return arena_->mapped_bytes() - std::uint64_t{arena_->live_frames()} * options_.frame_bytes;
}

std::uint64_t FramePool::metadata_bytes() const {
  return arena_->metadata_bytes() + references_.charged_bytes() + twins_.charged_bytes() +
         keeper_tags_.charged_bytes();
}

void FramePool::CheckInvariants(std::span<const std::uint32_t> expected) const {
  arena_->CheckInvariants();
  SKV_CHECK(expected.size() == arena_->end_of_live());
  SKV_CHECK(references_.size() == arena_->end_of_live());
  std::uint32_t twins = 0;
  for (std::size_t frame = 0; frame < twins_.size(); ++frame) {
    if (twins_[frame].pool == nullptr) continue;
    SKV_CHECK(frame < expected.size() && expected[frame] > 0, "a frame without owners has a twin");
    ++twins;
  }
  SKV_CHECK(twins == num_twins_);
  std::uint32_t shared = 0;
  std::uint32_t kept = 0;
  std::uint32_t cached = 0;
  for (std::uint32_t frame = 0; frame < expected.size(); ++frame) {
    const bool is_kept = keeper_tag(frame) != 0;
    SKV_CHECK(references_[frame] == expected[frame], "a frame counts its owners wrongly");
    SKV_CHECK((expected[frame] > 0 || is_kept) == arena_->IsLive(frame),
              "a frame lives without an owner");
    if (expected[frame] > 1) ++shared;
    if (is_kept) ++kept;
    if (is_kept && expected[frame] == 0) ++cached;
  }
  SKV_CHECK(shared == shared_frames_);
  SKV_CHECK(kept == kept_frames_ && cached == cached_frames_);
}

}  // namespace swiftkv
