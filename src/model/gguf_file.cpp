// SPDX-License-Identifier: Apache-2.0
// Implements opening of GGUF files and shards over ggml's reader.
#include "model/gguf_file.h"

#include <exception>
#include <filesystem>

#include "base/status_macros.h"
#include "ggml.h"
#include "gguf.h"
#include "model/gguf_scan.h"
#include "model/llama_guard.h"

namespace swiftkv {
namespace {

constexpr IntRange kShardCounts = {0, 65535};

// Parts of "<stem>-00001-of-00003.gguf".
struct ShardName {
  std::string stem;
  int index = 0;  // from 0
  int count = 0;
};

std::string FiveDigits(int value) {
  std::string digits = std::to_string(value);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string ShardPath(const ShardName& name, int index) {
  return name.stem + "-" + FiveDigits(index + 1) + "-of-" + FiveDigits(name.count) + ".gguf";
}

// Reads five digits of `text` from `at` on; -1 where they are none.
int ParseFiveDigits(const std::string& text, std::size_t at) {
  int value = 0;
  for (std::size_t i = at; i < at + 5; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

std::optional<ShardName> ParseShardName(const std::string& path) {
  constexpr std::size_t kTail = 20;  // characters of "-00001-of-00003.gguf"
  if (path.size() <= kTail) return std::nullopt;
  const std::size_t tail = path.size() - kTail;
  ShardName name;
  name.stem = path.substr(0, tail);
  const int number = ParseFiveDigits(path, tail + 1);
  name.count = ParseFiveDigits(path, tail + 10);
  if (number < 1 || name.count < number) return std::nullopt;
  name.index = number - 1;
  if (ShardPath(name, name.index) != path) return std::nullopt;
  return name;
}

Result<gguf_context*> ParseMetadata(const std::string& path) {
  const LlamaGuard guard;
  const auto failed = [&](const std::string& reason) {
    return Status::DataLoss("ggml cannot read the metadata (" + reason + ") of " + path);
  };
  try {
    gguf_init_params params = {};
    params.no_alloc = true;
    gguf_context* context = gguf_init_from_file(path.c_str(), params);
    if (context == nullptr) return failed(guard.Reason("damaged"));
    return context;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  std::unique_ptr<GgufFile> file(new GgufFile());
  SKV_RETURN_IF_ERROR(file->AddShard(path));
  SKV_RETURN_IF_ERROR(file->OpenRemainingShards());
  file->tensor_by_name_.reserve(file->tensors_.size());
  for (std::size_t i = 0; i < file->tensors_.size(); ++i) {
    const GgufTensor& tensor = file->tensors_[i];
    if (!file->tensor_by_name_.emplace(tensor.name, i).second) {
      return Status::DataLoss(file->shard(tensor.shard)->path() + ": tensor '" + tensor.name +
                              "' is also in another shard");
    }
  }
  return file;
}

GgufFile::~GgufFile() {
  for (gguf_context* context : contexts_) gguf_free(context);
}

Status GgufFile::AddShard(const std::string& path) {
  SKV_ASSIGN_OR_RETURN(auto shard, MappedFile::Open(path));
  SKV_RETURN_IF_ERROR(CheckGgufStructure(*shard));
  SKV_ASSIGN_OR_RETURN(gguf_context * context, ParseMetadata(path));
  contexts_.push_back(context);
  const int index = static_cast<int>(shards_.size());
  shards_.push_back(std::move(shard));
  const std::uint64_t data = gguf_get_data_offset(context);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(context); ++i) {
    GgufTensor tensor;
    tensor.name = gguf_get_tensor_name(context, i);
    tensor.type = gguf_get_tensor_type(context, i);
    const std::int64_t* extents = gguf_get_tensor_ne(context, i);
    std::copy(extents, extents + 4, tensor.shape.begin());
    tensor.bytes = gguf_get_tensor_size(context, i);
    tensor.shard = index;
    tensor.offset = data + gguf_get_tensor_offset(context, i);
    tensors_.push_back(std::move(tensor));
  }
  return Status::Ok();
}

Status GgufFile::OpenRemainingShards() {
  SKV_ASSIGN_OR_RETURN(const auto count, FindInt("split.count", kShardCounts));
  if (count.value_or(0) <= 1) return Status::Ok();
  const auto name = ParseShardName(path());
  if (!name || name->count != *count) {
    return Status::InvalidArgument("the model is split into " + std::to_string(*count) +
                                   " files, so its name must end with -00001-of-" +
                                   FiveDigits(static_cast<int>(*count)) + ".gguf: " + path());
  }
  if (name->index != 0) {
    return Status::InvalidArgument("this is one part of a split model; open its first file " +
                                   ShardPath(*name, 0) + " instead of " + path());
  }
  SKV_RETURN_IF_ERROR(CheckShard(0, *count));
  for (int i = 1; i < *count; ++i) {
    const std::string shard = ShardPath(*name, i);
    std::error_code ignored;
    if (!std::filesystem::exists(shard, ignored)) {
      return Status::NotFound("part " + std::to_string(i + 1) + " of " + std::to_string(*count) +
                              " of the model is missing: " + shard);
    }
    SKV_RETURN_IF_ERROR(AddShard(shard));
    SKV_RETURN_IF_ERROR(CheckShard(i, *count));
  }
  SKV_ASSIGN_OR_RETURN(const auto total, FindInt("split.tensors.count", {0, 1 << 30}));
  if (total && *total != static_cast<std::int64_t>(tensors_.size())) {
    return Damaged("key 'split.tensors.count' promises " + std::to_string(*total) +
                   " tensors in all parts; they hold " + std::to_string(tensors_.size()));
  }
  return Status::Ok();
}

// Checks that shard `index` says that it is this part of a model of `count` parts.
Status GgufFile::CheckShard(int index, std::int64_t count) const {
  const auto read = [&](const char* key, std::int64_t wanted) {
    const gguf_context* context = contexts_[static_cast<std::size_t>(index)];
    const std::int64_t id = gguf_find_key(context, key);
    const bool right = id >= 0 && gguf_get_kv_type(context, id) == GGUF_TYPE_UINT16 &&
                       gguf_get_val_u16(context, id) == wanted;
    if (right) return Status::Ok();
    return Status::DataLoss(shard(index)->path() + ": key '" + key + "' must be the u16 number " +
                            std::to_string(wanted) + " for this file to be part " +
                            std::to_string(index + 1) + " of the model");
  };
  SKV_RETURN_IF_ERROR(read("split.no", index));
  return read("split.count", count);
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_by_name_.find(name);
  return found == tensor_by_name_.end() ? nullptr : &tensors_[found->second];
}

std::uint64_t GgufFile::data_offset(int shard) const {
  return gguf_get_data_offset(contexts_[static_cast<std::size_t>(shard)]);
}

std::uint64_t GgufFile::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->size();
  return bytes;
}

Status GgufFile::Damaged(const std::string& message) const {
  return Status::DataLoss(path() + ": " + message);
}

Status GgufFile::Unsupported(const std::string& message) const {
  return Status::Unsupported(path() + ": " + message);
}

const char* TensorTypeName(int type) { return ggml_type_name(static_cast<ggml_type>(type)); }

std::string ShapeText(const std::array<std::int64_t, 4>& shape) {
  std::size_t dimensions = 4;
  while (dimensions > 1 && shape[dimensions - 1] == 1) --dimensions;
  std::string text;
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (d > 0) text += " x ";
    text += std::to_string(shape[d]);
  }
  return text;
}

}  // namespace swiftkv
