// SPDX-License-Identifier: Apache-2.0
// Opens a GGUF model, split files included, and answers typed questions about it.
//
// Owner: the loader of a model (and `inspect`); const functions may be called from several threads.
// The file's structure has been checked (gguf_scan.h) before anything is answered. Tensor data are
// neither mapped nor read here. Every error names the file and the key or tensor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/mapped_file.h"
#include "swiftkv/status.h"

struct gguf_context;

namespace swiftkv {

struct GgufTensor {
  std::string name;
  int type = 0;                            // ggml_type
  std::array<std::int64_t, 4> shape = {};  // contiguous extent first; 1 where absent
  std::uint64_t bytes = 0;
  int shard = 0;             // index of the file
  std::uint64_t offset = 0;  // from the start of that file
};

// Values that a number may have; messages state it.
struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

class GgufFile {
 public:
  // Opens `path` and, for a split model, the shards beside it. Errors: NotFound for a missing file
  // or shard; DataLoss for damage; Unsupported for another GGUF version; InvalidArgument for a
  // shard that is not the first.
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return shards_.front()->path(); }

  // Keys in the order of the (first) file.
  std::vector<std::string> Keys() const;
  bool Has(const std::string& key) const;
  // Returns a value for people: short, arrays as their type and length.
  std::string ValueText(const std::string& key) const;

  // Each returns nothing for a key that is absent. Errors: DataLoss for a value of another type or
  // outside `range`, with what was found and what is accepted.
  Result<std::optional<std::int64_t>> FindInt(const std::string& key, IntRange range) const;
  Result<std::optional<double>> FindNumber(const std::string& key) const;  // finite
  Result<std::optional<bool>> FindBool(const std::string& key) const;
  Result<std::optional<std::string>> FindString(const std::string& key) const;
  // Reads an array of whole numbers or booleans, or a single number as an array of one.
  Result<std::optional<std::vector<std::int64_t>>> FindInts(const std::string& key,
                                                            IntRange range) const;
  // Returns the length of an array, whatever its elements.
  Result<std::optional<std::uint64_t>> FindArrayLength(const std::string& key) const;
  // Returns the length of an array of strings.
  Result<std::optional<std::uint64_t>> FindStringCount(const std::string& key) const;

  // As above; an absent key is DataLoss too.
  Result<std::int64_t> RequireInt(const std::string& key, IntRange range) const;
  Result<double> RequireNumber(const std::string& key) const;
  Result<std::string> RequireString(const std::string& key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;  // null where absent

  int num_shards() const { return static_cast<int>(shards_.size()); }
  // Shared with what uses the tensors' data after the metadata are gone.
  const std::shared_ptr<MappedFile>& shard(int index) const {
    return shards_[static_cast<std::size_t>(index)];
  }
  std::uint64_t file_bytes() const;  // of all shards
  // Returns where a shard's tensor data begin; metadata and tensor records come before.
  std::uint64_t data_offset(int shard) const;

  // Prefixes an error of the file's content with the file's name.
  Status Damaged(const std::string& message) const;
  Status Unsupported(const std::string& message) const;

 private:
  GgufFile() = default;
  Status AddShard(const std::string& path);
  Status OpenRemainingShards();
  Status CheckShard(int index, std::int64_t count) const;
  std::int64_t FindKey(const std::string& key) const;  // -1 where absent
  Status WrongType(const std::string& key, const char* expected) const;

  std::vector<std::shared_ptr<MappedFile>> shards_;
  std::vector<gguf_context*> contexts_;  // one per shard, owned; metadata are the first one's
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> tensor_by_name_;  // views into tensors_
};

// Returns ggml's name of a tensor type, e.g. "q4_1".
const char* TensorTypeName(int type);

// Returns "64 x 128" for a shape, contiguous extent first.
std::string ShapeText(const std::array<std::int64_t, 4>& shape);

}  // namespace swiftkv
