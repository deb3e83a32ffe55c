// SPDX-License-Identifier: Apache-2.0
// Reserves a range of addresses whose pages the kernel maps when they are first touched.
//
// Pages are the system's small ones: huge pages would make the kernel count bytes that nobody
// charged. A guard page on either side stops overruns, and keeps the range a mapping of its own, so
// that smaps counts exactly it. Where the kernel can, the mapping is named "[anon:swiftkv ...]".
#pragma once

#include <cstddef>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the bytes of an OS page.
std::size_t OsPageBytes();

// Returns the OS pages that hold `bytes`.
std::size_t OsPages(std::size_t bytes);

class MappedRange {
 public:
  MappedRange() = default;
  ~MappedRange();
  MappedRange(MappedRange&& other) noexcept;
  MappedRange& operator=(MappedRange&& other) noexcept;

  // Reserves `bytes`, rounded up to whole OS pages; readable, writable and zero. Costs no memory
  // until touched. Errors: ResourceExhausted where the system refuses the addresses.
  static Result<MappedRange> Reserve(std::size_t bytes, const char* name);

  // The range's start, aligned to an OS page.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Gives whole OS pages back; they read as zero afterwards. Offset and size are multiples of
  // OsPageBytes().
  void Discard(std::size_t offset, std::size_t bytes);

 private:
  MappedRange(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;  // without the guard pages
};

}  // namespace swiftkv
