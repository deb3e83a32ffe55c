// SPDX-License-Identifier: Apache-2.0
// Sets formats up: layout, size classes, bookkeeping.
#include "cache/cache_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace swiftkv {

Result<const StoredFormat*> CacheFormats::Find(const KvFormat& format) {
  SKV_ASSIGN_OR_RETURN(FormatPlan plan,
                       FormatPlan::For(geometry_->layers, format.key, format.value));
  for (const auto& known : formats_) {
    if (known->asked == plan.asked) return known.get();
  }
  auto stored = std::make_unique<StoredFormat>();
  stored->asked = plan.asked;
  stored->open.layout = BlockLayout::For(*geometry_, std::move(plan.open));
  stored->sealed.layout = BlockLayout::For(*geometry_, std::move(plan.sealed));
  const std::size_t known_pools = pools_.size();
  Status status = TakePools(&stored->open);
  if (status.ok()) status = TakePools(&stored->sealed);
  std::uint64_t heap = stored->heap_bytes();
  for (std::size_t i = known_pools; i < pools_.size(); ++i) heap += pools_[i]->heap_bytes();
  if (status.ok() && !ledger_->TryAdd(heap)) {
    status = Status::ResourceExhausted(fmt::format(
        "a cache with sequences in {} needs {} more bytes for bookkeeping than its bound of {} "
        "leaves, which are: {}",
        PageFormatName(stored->asked), heap, budget_->limit_bytes(), budget_->left_bytes()));
  }
  if (!status.ok()) {
    pools_.resize(known_pools);
    return status;
  }
  formats_.push_back(std::move(stored));
  return formats_.back().get();
}

const StoredFormat* CacheFormats::FindKnown(const KvFormat& format) const {
  const Result<FormatPlan> plan = FormatPlan::For(geometry_->layers, format.key, format.value);
  if (!plan.ok()) return nullptr;
  for (const auto& known : formats_) {
    if (known->asked == plan->asked) return known.get();
  }
  return nullptr;
}

Status CacheFormats::TakePools(StoredLayout* stored) {
  stored->pools.reserve(stored->layout.frame_bytes.size());
  for (const std::size_t frame_bytes : stored->layout.frame_bytes) {
    SKV_ASSIGN_OR_RETURN(FramePool* const pool, TakePool(frame_bytes));
    stored->pools.push_back(pool);
  }
  return Status::Ok();
}

Result<FramePool*> CacheFormats::TakePool(std::size_t frame_bytes) {
  const auto known = std::find_if(pools_.begin(), pools_.end(), [&](const auto& pool) {
    return pool->arena().frame_bytes() == frame_bytes;
  });
  if (known != pools_.end()) return known->get();
  FramePool::Options options = pool_options_;
  options.frame_bytes = frame_bytes;
  SKV_ASSIGN_OR_RETURN(auto fresh, FramePool::Create(options, budget_));
  pools_.push_back(std::move(fresh));
  return pools_.back().get();
}

Result<FramePool*> CacheFormats::PoolOf(std::size_t frame_bytes) {
  const std::size_t known_pools = pools_.size();
  SKV_ASSIGN_OR_RETURN(FramePool* const pool, TakePool(frame_bytes));
  if (pools_.size() == known_pools || ledger_->TryAdd(pool->heap_bytes())) return pool;
  const std::uint64_t heap = pool->heap_bytes();
  pools_.pop_back();
  return Status::ResourceExhausted(
      fmt::format("frames of {} bytes need {} more bytes for bookkeeping than the KV cache's bound "
                  "of {} leaves, which are: {}",
                  frame_bytes, heap, budget_->limit_bytes(), budget_->left_bytes()));
}

std::uint64_t CacheFormats::heap_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->heap_bytes();
  for (const auto& format : formats_) bytes += format->heap_bytes();
  return bytes;
}

}  // namespace swiftkv
