// SPDX-License-Identifier: Apache-2.0
// Maps the memory of a bench.
#include "tools/bench_arena.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// A system that promises more than it has would end the process at the first touch.
Status CheckAvailable(std::size_t bytes) {
  SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
  if (bytes <= available) return Status::Ok();
  return Status::ResourceExhausted(
      "this bench needs memory that the machine lacks (it has " + FormatByteSize(available) +
      "); a smaller --megabytes, --contexts or --batches needs less than " + FormatByteSize(bytes));
}

}  // namespace

BenchArena::~BenchArena() { Unmap(); }

void BenchArena::Unmap() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

Status BenchArena::Ensure(std::size_t bytes) {
  if (bytes <= bytes_) return Status::Ok();
  Unmap();
  SKV_RETURN_IF_ERROR(CheckAvailable(bytes));
  mapping_bytes_ = bytes + kHugePageBytes;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return Status::ResourceExhausted("the system refuses memory for a bench: " +
                                     FormatByteSize(mapping_bytes_));
  }
  mapping_ = mapping;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  data_ = static_cast<std::byte*>(mapping) + (aligned - address);
  bytes_ = bytes;
  // Advice only: where the system has no huge pages it stays with small ones.
  madvise(mapping_, mapping_bytes_, huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(data_, 1, bytes_);
  return Status::Ok();
}

}  // namespace swiftkv
