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
    auto pool = std::find_if(pools_.begin(), pools_.end(), [&](const auto& known) {
      return known->arena().frame_bytes() == frame_bytes;
    });
    if (pool == pools_.end()) {
      FramePool::Options options = pool_options_;
      options.frame_bytes = frame_bytes;
      SKV_ASSIGN_OR_RETURN(auto fresh, FramePool::Create(options, budget_));
      pool = pools_.insert(pool, std::move(fresh));
    }
    stored->pools.push_back(pool->get());
  }
  return Status::Ok();
}

std::uint64_t CacheFormats::heap_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->heap_bytes();
  for (const auto& format : formats_) bytes += format->heap_bytes();
  return bytes;
}

}  // namespace swiftkv
