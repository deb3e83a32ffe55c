// SPDX-License-Identifier: Apache-2.0
// Keeps pinned prefixes from eviction until their time is over or their pin is taken back.
//
// A node is pinned as long as the longest pin whose path it lies on; what its windows see of it is
// pinned apart, because shorter hits need other window frames than longer ones.
#include <algorithm>

#include "base/check.h"
#include "cache/prefix_index.h"

namespace swiftkv {
namespace {

constexpr std::size_t kFewestPins = 8;

}  // namespace

bool PrefixIndex::TryPin(NodeId id, std::int64_t until) {
  if (until <= now_) return true;
  const auto known =
      std::find_if(pins_.begin(), pins_.end(), [id](const Pin& pin) { return pin.end == id; });
  if (known != pins_.end()) {
    known->until = std::max(known->until, until);
  } else if (!TryAddPin({id, until})) {
    return false;
  }
  Mark({id, until});
  next_expiry_ = pins_.front().until;
  for (const Pin& pin : pins_) next_expiry_ = std::min(next_expiry_, pin.until);
  RefreshPath(id);
  return true;
}

bool PrefixIndex::TryAddPin(const Pin& pin) {
  if (pins_.size() == pins_.capacity()) {
    const std::size_t capacity = std::max(kFewestPins, 2 * pins_.capacity());
    if (!ledger_->TryAdd((capacity - pins_.capacity()) * sizeof(Pin))) return false;
    pins_.reserve(capacity);
    SKV_CHECK(pins_.capacity() == capacity, "reserve() gives what was asked for");
  }
  pins_.push_back(pin);
  return true;
}

// Notes a pin on its path.
void PrefixIndex::Mark(const Pin& pin) {
  const std::int64_t end = (tree_[pin.end].block + std::int64_t{1}) * kPageTokens;
  for (NodeId at = pin.end; !tree_[at].is_root(); at = tree_[at].parent) {
    PrefixNode& node = tree_[at];
    if (node.pinned_until == 0) ++pinned_blocks_;
    node.pinned_until = std::max(node.pinned_until, pin.until);
    for (std::size_t group = 0; group < groups(); ++group) {
      if (!has_window(group) || node.block < OldestVisibleBlock(end, geometry_->window(group))) {
        continue;
      }
      node.window_pinned_until = std::max(node.window_pinned_until, pin.until);
    }
  }
}

void PrefixIndex::RefreshPath(NodeId id) {
  for (; !tree_[id].is_root(); id = tree_[id].parent) Refresh(id);
}

bool PrefixIndex::Unpin(const BlockKey& end, const StoredFormat* format) {
  const auto ended = std::partition(pins_.begin(), pins_.end(), [&](const Pin& pin) {
    return tree_[pin.end].key != end || tree_[pin.end].format != format;
  });
  if (ended == pins_.end()) return false;
  EndPins(static_cast<std::size_t>(ended - pins_.begin()));
  return true;
}

void PrefixIndex::SetTime(std::int64_t milliseconds) {
  SKV_CHECK(milliseconds >= now_, "the clock is monotonic, and starts at 0 or later");
  now_ = milliseconds;
  if (now_ < next_expiry_) return;
  const auto ended = std::partition(pins_.begin(), pins_.end(),
                                    [this](const Pin& pin) { return pin.until > now_; });
  EndPins(static_cast<std::size_t>(ended - pins_.begin()));
}

// Ends pins_ [first, end).
void PrefixIndex::EndPins(std::size_t first) {
  const auto ended = std::span(pins_).subspan(first);
  for (const Pin& pin : ended) {
    for (NodeId at = pin.end; !tree_[at].is_root(); at = tree_[at].parent) {
      PrefixNode& node = tree_[at];
      if (node.pinned_until != 0) --pinned_blocks_;
      node.pinned_until = node.window_pinned_until = 0;
    }
  }
  next_expiry_ = INT64_MAX;
  for (const Pin& pin : std::span(pins_).first(first)) {
    Mark(pin);  // what it had in common with them
    next_expiry_ = std::min(next_expiry_, pin.until);
  }
  for (const Pin& pin : ended) RefreshPath(pin.end);
  pins_.resize(first);
  if (!pins_.empty()) return;
  ledger_->Remove(pins_.capacity() * sizeof(Pin));
  std::vector<Pin>().swap(pins_);
}

}  // namespace swiftkv
