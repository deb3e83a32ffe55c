// SPDX-License-Identifier: Apache-2.0
// Maps, names and discards anonymous memory (Linux).
#include "cache/mapped_range.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace swiftkv {
namespace {

// PR_SET_VMA and PR_SET_VMA_ANON_NAME of Linux 5.17, which older C libraries do not declare.
constexpr int kSetVma = 0x53564d41;
constexpr unsigned long kSetVmaAnonName = 0;

// MADV_COLLAPSE of Linux 6.1.
constexpr int kCollapse = 25;

// Returns whether any page of [begin, begin + bytes) is mapped, and true where nobody knows.
bool IsTouched(std::byte* begin, std::size_t bytes) {
  std::vector<unsigned char> resident(OsPages(bytes));
  if (mincore(begin, bytes, resident.data()) != 0) return true;
  return std::any_of(resident.begin(), resident.end(),
                     [](unsigned char page) { return page & 1U; });
}

}  // namespace

std::size_t OsPageBytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t OsPages(std::size_t bytes) {
  const std::size_t page = OsPageBytes();
  return bytes / page + (bytes % page != 0 ? 1 : 0);
}

bool SystemHasHugePages() {
  static const bool has = [] {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string modes;
    return std::getline(file, modes) && modes.find("[never]") == std::string::npos;
  }();
  return has;
}

MappedRange::~MappedRange() {
  if (mapping_ != nullptr) SKV_CHECK(munmap(mapping_, mapping_bytes_) == 0);
}

MappedRange::MappedRange(MappedRange&& other) noexcept { *this = std::move(other); }

MappedRange& MappedRange::operator=(MappedRange&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

Result<MappedRange> MappedRange::Reserve(std::size_t bytes, const char* name,
                                         std::size_t alignment) {
  constexpr std::size_t kAddressable = std::size_t{1} << 47;
  const std::size_t guard = OsPageBytes();
  alignment = std::max(alignment, guard);
  MappedRange range;
  range.bytes_ = OsPages(bytes) * guard;
  void* whole = MAP_FAILED;
  if (bytes > 0 && bytes < kAddressable) {
    range.mapping_bytes_ = range.bytes_ + guard + alignment;  // a guard behind, one or more before
    whole = mmap(nullptr, range.mapping_bytes_, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (whole == MAP_FAILED) {
    return Status::ResourceExhausted(fmt::format(
        "the system does not reserve addresses for {}; choose a smaller size than {} bytes", name,
        bytes));
  }
  range.mapping_ = whole;
  const auto address = reinterpret_cast<std::uintptr_t>(whole);
  range.data_ = static_cast<std::byte*>(whole) + (alignment - address % alignment);
  if (mprotect(range.data_, range.bytes_, PROT_READ | PROT_WRITE) != 0) {
    return Status::ResourceExhausted(fmt::format("the system does not let {} use {} bytes: {}",
                                                 name, range.bytes_, std::strerror(errno)));
  }
  // Both are refinements: a kernel built without huge pages or names refuses them.
  (void)madvise(range.data_, range.bytes_, MADV_NOHUGEPAGE);
  (void)prctl(kSetVma, kSetVmaAnonName, range.data_, range.bytes_, name);
  return range;
}

void MappedRange::Discard(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  SKV_CHECK(offset % OsPageBytes() == 0 && bytes % OsPageBytes() == 0);
  SKV_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  SKV_CHECK(madvise(data_ + offset, bytes, MADV_DONTNEED) == 0);
}

// The advice is taken back at the end: pages that are discarded come back as small ones.
bool MappedRange::UseHugePages(std::size_t offset, std::size_t bytes) {
  SKV_CHECK(reinterpret_cast<std::uintptr_t>(data_) % kHugePageBytes == 0);
  SKV_CHECK(offset % kHugePageBytes == 0 && bytes % kHugePageBytes == 0);
  SKV_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  std::byte* const begin = data_ + offset;
  if (madvise(begin, bytes, MADV_HUGEPAGE) != 0) return false;
  bool has_small_pages = false;
  for (std::byte* unit = begin; unit < begin + bytes; unit += kHugePageBytes) {
    if (IsTouched(unit, kHugePageBytes)) {
      has_small_pages = true;
      continue;
    }
    volatile std::byte* const first = unit;  // the first touch of a free stretch maps all of it
    *first = std::byte{0};
  }
  // The kernel waits for all processors before it collapses: one call for the whole stretch.
  const bool has_moved = !has_small_pages || madvise(begin, bytes, kCollapse) == 0;
  (void)madvise(begin, bytes, MADV_NOHUGEPAGE);
  return has_moved;
}

}  // namespace swiftkv
