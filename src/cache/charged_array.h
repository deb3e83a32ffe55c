// SPDX-License-Identifier: Apache-2.0
// Keeps a growing array whose OS pages are charged to the budget before they are touched.
//
// Growing never moves elements. Elements beyond size() are zero and take no memory.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "cache/mapped_range.h"
#include "cache/memory_budget.h"

namespace swiftkv {

template <typename T>
class ChargedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ChargedArray() = default;

  // Reserves addresses for `max_size` elements. `budget` outlives the array. Errors:
  // ResourceExhausted.
  static Result<ChargedArray> Create(std::size_t max_size, const char* name, MemoryBudget* budget) {
    Result<MappedRange> range = MappedRange::Reserve(max_size * sizeof(T), name);
    if (!range.ok()) return range.status();
    return ChargedArray(std::move(range).value(), budget);
  }

  // Makes room for elements [0, size); new ones are zero. Returns false, and changes nothing, where
  // the budget has no room.
  [[nodiscard]] bool TryGrow(std::size_t size) {
    if (size <= size_) return true;
    SKV_CHECK(size * sizeof(T) <= range_.bytes());
    if (!budget_->TryCharge(PageBytes(size) - PageBytes(size_))) return false;
    size_ = size;
    return true;
  }

  // Drops the elements from `size` on, which the caller has set to zero.
  void Shrink(std::size_t size) {
    if (size >= size_) return;
    const std::size_t keep = PageBytes(size);
    const std::size_t give_back = PageBytes(size_) - keep;
    range_.Discard(keep, give_back);
    budget_->Uncharge(give_back);
    size_ = size;
  }

  T& operator[](std::size_t index) { return reinterpret_cast<T*>(range_.data())[index]; }
  const T& operator[](std::size_t index) const {
    return reinterpret_cast<const T*>(range_.data())[index];
  }

  std::size_t size() const { return size_; }
  std::uint64_t charged_bytes() const { return PageBytes(size_); }

 private:
  ChargedArray(MappedRange range, MemoryBudget* budget)
      : range_(std::move(range)), budget_(budget) {}

  static std::size_t PageBytes(std::size_t size) {
    return OsPages(size * sizeof(T)) * OsPageBytes();
  }

  MappedRange range_;
  MemoryBudget* budget_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace swiftkv
