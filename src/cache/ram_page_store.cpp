// SPDX-License-Identifier: Apache-2.0
// Keeps blocks in a list by age and a table by key.
#include "cache/ram_page_store.h"

#include <fmt/format.h>

#include <list>
#include <unordered_map>

namespace swiftkv {
namespace {

class RamPageStore final : public PageStore {
 public:
  explicit RamPageStore(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  const char* name() const override { return "ram"; }

  Status Put(const BlockKey& key, const StoredBlockInfo& info,
             std::span<const std::byte> payload) override {
    if (payload.size() > limit_bytes_) {
      return Status::ResourceExhausted(
          fmt::format("the RAM tier holds blocks of up to its limit of {} bytes, not: {}",
                      limit_bytes_, payload.size()));
    }
    Remove(key);
    while (payload.size() > limit_bytes_ - bytes_used_) Remove(entries_.back().key);
    entries_.push_front({key, {info, {payload.begin(), payload.end()}}});
    by_key_[key] = entries_.begin();
    bytes_used_ += payload.size();
    return Status::Ok();
  }

  Result<StoredBlock> Get(const BlockKey& key) override {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) {
      return Status::NotFound("the RAM tier does not hold block " + ToHex(key));
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->block;
  }

  bool Contains(const BlockKey& key) const override { return by_key_.contains(key); }

  void Remove(const BlockKey& key) override {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    const auto entry = found->second;
    bytes_used_ -= entry->block.payload.size();
    by_key_.erase(found);
    entries_.erase(entry);  // last: `key` may lie in it
  }

  std::uint64_t bytes_used() const override { return bytes_used_; }

 private:
  struct Entry {
    BlockKey key;
    StoredBlock block;
  };

  const std::uint64_t limit_bytes_;
  std::uint64_t bytes_used_ = 0;  // payloads of entries_; <= limit_bytes_
  std::list<Entry> entries_;      // most recently used first
  std::unordered_map<BlockKey, std::list<Entry>::iterator, BlockKeyHash> by_key_;
};

}  // namespace

Result<std::unique_ptr<PageStore>> OpenRamPageStore(const PageStoreOptions& options) {
  return std::unique_ptr<PageStore>(std::make_unique<RamPageStore>(options.limit_bytes));
}

}  // namespace swiftkv
