// SPDX-License-Identifier: Apache-2.0
// Holds one large piece of memory that the rows of a bench use one after the other.
//
// Touching fresh memory costs more than a measurement, so that it is kept as long as it is large
// enough. Memory is of the system's small pages, as the cache's is, or of its huge ones.
#pragma once

#include <cstddef>

#include "swiftkv/status.h"

namespace swiftkv {

class BenchArena {
 public:
  explicit BenchArena(bool huge_pages) : huge_pages_(huge_pages) {}
  ~BenchArena();
  BenchArena(const BenchArena&) = delete;
  BenchArena& operator=(const BenchArena&) = delete;

  // Makes [data(), data() + bytes) usable; what it holds is unspecified. Addresses may change.
  // Errors: ResourceExhausted.
  Status Ensure(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool huge_pages() const { return huge_pages_; }

 private:
  void Unmap();

  bool huge_pages_;
  std::byte* data_ = nullptr;  // aligned to a huge page
  std::size_t bytes_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace swiftkv
