// SPDX-License-Identifier: Apache-2.0
// Maps one file read-only and reads ranges of it without mapping.
//
// Owner: whoever opened it; const functions may be called from several threads. A file that shrinks
// while it is mapped makes the kernel raise SIGBUS on the pages that are gone, so users of the
// mapping ask CheckSize() before they touch pages of a file that others may have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

class MappedFile {
 public:
  // Errors: NotFound when it does not exist or is no regular file; InvalidArgument when it may not
  // be read.
  static Result<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // bytes when it was opened

  // Copies [offset, offset + out.size()). Errors: DataLoss when the file no longer has them.
  Status Read(std::uint64_t offset, std::span<std::byte> out) const;

  // Maps the whole file; idempotent. Errors: ResourceExhausted.
  Status Map();
  // The mapped bytes, empty before Map().
  std::span<const std::byte> bytes() const { return {data_, data_ == nullptr ? 0 : size_}; }

  // Errors: DataLoss when the file is now shorter than it was.
  Status CheckSize() const;

  // Reads a mapped range into the page cache and this process.
  void Populate(std::uint64_t offset, std::uint64_t size) const;
  // Takes the whole OS pages of a mapped range out of this process; the next access reads them
  // again.
  void Drop(std::uint64_t offset, std::uint64_t size) const;

 private:
  MappedFile(std::string path, int descriptor, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_;
  std::uint64_t size_;
  const std::byte* data_ = nullptr;
};

}  // namespace swiftkv
