// SPDX-License-Identifier: Apache-2.0
// Maps, names and discards anonymous memory (Linux).
#include "cache/mapped_range.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace swiftkv {
namespace {

// PR_SET_VMA and PR_SET_VMA_ANON_NAME of Linux 5.17, which older C libraries do not declare.
constexpr int kSetVma = 0x53564d41;
constexpr unsigned long kSetVmaAnonName = 0;

}  // namespace

std::size_t OsPageBytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t OsPages(std::size_t bytes) {
  const std::size_t page = OsPageBytes();
  return bytes / page + (bytes % page != 0 ? 1 : 0);
}

MappedRange::~MappedRange() {
  if (data_ == nullptr) return;
  const std::size_t guard = OsPageBytes();
  SKV_CHECK(munmap(data_ - guard, bytes_ + 2 * guard) == 0);
}

MappedRange::MappedRange(MappedRange&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedRange& MappedRange::operator=(MappedRange&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<MappedRange> MappedRange::Reserve(std::size_t bytes, const char* name) {
  constexpr std::size_t kAddressable = std::size_t{1} << 47;
  const std::size_t guard = OsPageBytes();
  const std::size_t rounded = OsPages(bytes) * guard;
  void* whole = MAP_FAILED;
  if (bytes > 0 && bytes < kAddressable) {
    whole = mmap(nullptr, rounded + 2 * guard, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (whole == MAP_FAILED) {
    return Status::ResourceExhausted(fmt::format(
        "the system does not reserve addresses for {}; choose a smaller size than {} bytes", name,
        bytes));
  }
  MappedRange range(static_cast<std::byte*>(whole) + guard, rounded);
  if (mprotect(range.data_, rounded, PROT_READ | PROT_WRITE) != 0) {
    return Status::ResourceExhausted(fmt::format("the system does not let {} use {} bytes: {}",
                                                 name, rounded, std::strerror(errno)));
  }
  // Both are refinements: a kernel built without huge pages or names refuses them.
  (void)madvise(range.data_, rounded, MADV_NOHUGEPAGE);
  (void)prctl(kSetVma, kSetVmaAnonName, range.data_, rounded, name);
  return range;
}

void MappedRange::Discard(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  SKV_CHECK(offset % OsPageBytes() == 0 && bytes % OsPageBytes() == 0);
  SKV_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  SKV_CHECK(madvise(data_ + offset, bytes, MADV_DONTNEED) == 0);
}

}  // namespace swiftkv
