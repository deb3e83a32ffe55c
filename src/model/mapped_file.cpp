// SPDX-License-Identifier: Apache-2.0
// Implements read-only file mappings over open, pread and mmap.
#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/status_macros.h"

namespace swiftkv {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

// Range of whole OS pages: the part of [offset, offset + size) that no neighbour shares when
// `inward`, else every page that it touches.
struct PageRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

PageRange WholePages(std::uint64_t offset, std::uint64_t size, bool inward) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t end = offset + size;
  if (inward) return {(offset + page - 1) / page * page, end / page * page};
  return {offset / page * page, (end + page - 1) / page * page};
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string message = "cannot open file (" + ErrorText(errno) + "): " + path;
    return errno == EACCES ? Status::InvalidArgument(message) : Status::NotFound(message);
  }
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return Status::NotFound("not a regular file: " + path);
  }
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, descriptor, static_cast<std::uint64_t>(info.st_size)));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  close(descriptor_);
}

Status MappedFile::Read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status::DataLoss("cannot read " + path_ + ": " + ErrorText(errno));
    }
    if (got == 0) {
      return Status::DataLoss(path_ + " ends before byte " + std::to_string(offset + out.size()));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return Status::Ok();
}

Status MappedFile::Map() {
  if (data_ != nullptr || size_ == 0) return Status::Ok();
  void* address = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) {
    return Status::ResourceExhausted("cannot map the " + std::to_string(size_) + " bytes of " +
                                     path_ + ": " + ErrorText(errno));
  }
  data_ = static_cast<const std::byte*>(address);
  return Status::Ok();
}

Status MappedFile::CheckSize() const {
  struct stat info = {};
  if (fstat(descriptor_, &info) != 0) {
    return Status::DataLoss("cannot read the size of " + path_ + ": " + ErrorText(errno));
  }
  if (static_cast<std::uint64_t>(info.st_size) >= size_) return Status::Ok();
  return Status::DataLoss("the file was cut while in use, from " + std::to_string(size_) + " to " +
                          std::to_string(info.st_size) + " bytes: " + path_);
}

void MappedFile::Populate(std::uint64_t offset, std::uint64_t size) const {
  const PageRange range = WholePages(offset, size, /*inward=*/false);
  auto* address = const_cast<std::byte*>(data_) + range.begin;
  const std::uint64_t length = std::min(range.end, size_) - range.begin;
#ifdef MADV_POPULATE_READ
  if (madvise(address, length, MADV_POPULATE_READ) == 0) return;
#endif
  madvise(address, length, MADV_WILLNEED);
}

void MappedFile::Drop(std::uint64_t offset, std::uint64_t size) const {
  const PageRange range = WholePages(offset, size, /*inward=*/true);
  if (range.begin >= range.end) return;
  madvise(const_cast<std::byte*>(data_) + range.begin, range.end - range.begin, MADV_DONTNEED);
}

}  // namespace swiftkv
