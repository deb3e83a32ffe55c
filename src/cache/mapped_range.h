// SPDX-License-Identifier: Apache-2.0
// Reserves a range of addresses whose pages the kernel maps when they are first touched.
//
// Pages are the system's small ones, where the owner does not ask for huge ones by stretch: a huge
// page that came by itself would make the kernel count bytes that nobody charged. A guard page on
// either side stops overruns, and keeps the range a mapping of its own, so that smaps counts
// exactly it. Where the kernel can, the mapping is named "[anon:swiftkv ...]".
#pragma once

#include <cstddef>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the bytes of an OS page.
std::size_t OsPageBytes();

// Returns the OS pages that hold `bytes`.
std::size_t OsPages(std::size_t bytes);

// What one entry of an x86-64 page directory maps.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Returns whether the system gives huge pages to who asks for them.
bool SystemHasHugePages();

class MappedRange {
 public:
  MappedRange() = default;
  ~MappedRange();
  MappedRange(MappedRange&& other) noexcept;
  MappedRange& operator=(MappedRange&& other) noexcept;

  // Reserves `bytes`, rounded up to whole OS pages; readable, writable and zero. Costs no memory
  // until touched. `alignment` of the start is a power of two of at least OsPageBytes(), or 0 for
  // that. Errors: ResourceExhausted where the system refuses the addresses.
  static Result<MappedRange> Reserve(std::size_t bytes, const char* name,
                                     std::size_t alignment = 0);

  // The range's start.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Gives whole OS pages back; they read as zero afterwards. Offset and size are multiples of
  // OsPageBytes().
  void Discard(std::size_t offset, std::size_t bytes);

  // Moves a stretch into huge pages, contents and all; pages of it that were not mapped become so.
  // What is discarded later leaves as small pages do. Offset and size are multiples of
  // kHugePageBytes in a range of that alignment. False where the system had none to give; then
  // contents are as they were and no page was unmapped.
  bool UseHugePages(std::size_t offset, std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;    // without the guard pages
  void* mapping_ = nullptr;  // with them, and with what alignment cost
  std::size_t mapping_bytes_ = 0;
};

}  // namespace swiftkv
