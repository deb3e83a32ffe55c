// SPDX-License-Identifier: Apache-2.0
// Counts the owners of frames: a frame lives while it has one, and is shared while it has more.
//
// Owner: the cache's thread. A frame with two or more owners, or a keeper, never changes its bytes;
// who wants to write copies it first. States of a frame:
//     free -> private (Allocate) <-> shared (AddReference, Release) ; private -> free (Release)
// A keeper (the prefix index) is no owner: it holds a frame for later owners and may forget it.
//     private, kept -> cached (Release) ; cached -> private (AddReference) ; cached -> free
//     (Forget)
//
// A frame may have a twin: a frame of another size class with the same tokens in a smaller layout,
// kept for the frame's other owners by the first that changed over. The twin is held by the frame
// itself, as one more owner, until the frame is freed or is to be written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cache/arena.h"

namespace swiftkv {

// Hears when frames that it keeps lose their last owner and find a first one again. `tag` is what
// the keeper named the frame.
class FrameKeeper {
 public:
  virtual ~FrameKeeper() = default;
  virtual void FrameIsIdle(std::uint32_t tag) = 0;
  virtual void FrameIsTaken(std::uint32_t tag) = 0;
};

class FramePool {
 public:
  struct Options {
    FrameKeeper* keeper = nullptr;  // outlives the pool; null: TryKeep is not called
    std::size_t frame_bytes = 0;    // a multiple of 64
    bool poison = false;      // fill fresh and freed frames with 0xFF, NaN in floating formats
    bool huge_pages = false;  // as in Arena::Create
  };

  // Errors: ResourceExhausted.
  static Result<std::unique_ptr<FramePool>> Create(const Options& options, MemoryBudget* budget);

  // Returns a frame with one owner, or Arena::kNoFrame where the budget has no room.
  [[nodiscard]] std::uint32_t TryAllocate();

  // See Arena.
  void UseHugePages() { arena_->UseHugePages(); }

  // Adds an owner to a frame that has one or is cached.
  void AddReference(std::uint32_t frame);

  // Takes one owner from each frame; those without owners or keeper are freed together.
  void Release(std::span<const std::uint32_t> frames);

  std::uint32_t references(std::uint32_t frame) const { return references_[frame]; }
  bool IsShared(std::uint32_t frame) const { return references_[frame] > 1; }
  // Whether its one owner may change its bytes.
  bool IsWritable(std::uint32_t frame) const {
    return references_[frame] == 1 && keeper_tag(frame) == 0;
  }

  // Has the keeper hold a frame with owners that it does not hold yet, under a tag that is not 0.
  // False, and no change, where the budget has no room.
  [[nodiscard]] bool TryKeep(std::uint32_t frame, std::uint32_t tag);
  // The keeper lets a frame go, which is freed unless it has owners.
  void Forget(std::uint32_t frame);
  // Returns 0 where the keeper does not hold the frame.
  std::uint32_t keeper_tag(std::uint32_t frame) const {
    return frame < keeper_tags_.size() ? keeper_tags_[frame] : 0;
  }
  std::uint32_t kept_frames() const { return kept_frames_; }
  // The metadata that exists for the keeper.
  std::uint64_t keeper_bytes() const { return keeper_tags_.charged_bytes(); }

  // Returns the frame's twin, or Arena::kNoFrame.
  std::uint32_t twin(std::uint32_t frame) const {
    return frame < twins_.size() && twins_[frame].pool != nullptr ? twins_[frame].frame
                                                                  : Arena::kNoFrame;
  }
  struct Twin {
    FramePool* pool;  // null: none
    std::uint32_t frame;
  };
  // Returns a frame's twin that no one else has, nor the keeper.
  Twin OwnTwin(std::uint32_t frame) const;
  // Makes frame `other` of `pool` the twin of a frame that has none, with a reference of its own.
  // False, and no change, where the budget has no room.
  [[nodiscard]] bool TrySetTwin(std::uint32_t frame, FramePool* pool, std::uint32_t other);
  // Releases the frame's twin where it has one.
  void DropTwin(std::uint32_t frame);
  // Adds the references that this pool's frames hold on twins in `pool` to `owners`.
  void CountTwins(const FramePool& pool, std::span<std::uint32_t> owners) const;

  std::uint64_t private_bytes() const;
  std::uint64_t shared_bytes() const;
  std::uint64_t cached_bytes() const;
  // Mapped bytes in no frame.
  std::uint64_t free_bytes() const;
  std::uint64_t metadata_bytes() const;
  // Bookkeeping on the heap, fixed at creation; charged by the owner.
  std::uint64_t heap_bytes() const { return arena_->heap_bytes(); }

  const Arena& arena() const { return *arena_; }

  // Stops the process unless `expected` (owners of every frame below arena().end_of_live()) is what
  // the pool counts.
  void CheckInvariants(std::span<const std::uint32_t> expected) const;

 private:
  explicit FramePool(const Options& options) : options_(options) {}

  // Frees frames that nobody holds any more.
  void Free(std::span<const std::uint32_t> frames);

  // Gives the room of twins beyond the live frames back, all of it where there is no twin.
  void ShrinkTwins();
  void ShrinkKeeperTags();

  const Options options_;
  std::unique_ptr<Arena> arena_;
  ChargedArray<std::uint32_t> references_;  // [arena_->end_of_live()]
  std::uint32_t shared_frames_ = 0;         // with two or more owners
  ChargedArray<Twin> twins_;                // up to the last frame that was given one
  std::uint32_t num_twins_ = 0;
  ChargedArray<std::uint32_t> keeper_tags_;  // up to the last frame that was kept
  std::uint32_t kept_frames_ = 0;
  std::uint32_t cached_frames_ = 0;  // kept, without owners
};

}  // namespace swiftkv
