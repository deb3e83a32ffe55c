// SPDX-License-Identifier: Apache-2.0
// Implements the structural check of GGUF files.
#include "model/gguf_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "ggml.h"
#include "gguf.h"

namespace swiftkv {
namespace {

constexpr std::uint32_t kDefaultAlignment = 32;     // bytes
constexpr std::uint32_t kSmallestAlignment = 8;     // the format's
constexpr std::uint32_t kLargestAlignment = 65536;  // a few times the largest OS page in use

// Bytes of one value of each gguf_type; 0 for strings and arrays, whose lengths are in the file.
constexpr std::array<std::uint64_t, GGUF_TYPE_COUNT> kValueBytes = {1, 1, 2, 2, 4, 4, 4,
                                                                    1, 0, 0, 8, 8, 8};

// Reads little-endian fields through a window of the file.
class FieldReader {
 public:
  FieldReader(const MappedFile& file, std::uint64_t limit)
      : file_(file), end_(std::min(file.size(), limit)) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return end_ - position_; }

  template <typename T>
  Status Read(const char* what, T* value) {
    std::array<std::byte, sizeof(T)> raw = {};
    SKV_RETURN_IF_ERROR(Bytes(what, raw));
    std::memcpy(value, raw.data(), sizeof(T));
    return Status::Ok();
  }

  Status Text(const char* what, std::uint64_t max_bytes, std::string* text) {
    std::uint64_t length = 0;
    SKV_RETURN_IF_ERROR(Read(what, &length));
    if (length > max_bytes || length > remaining()) {
      return Status::DataLoss(std::string(what) + " claims " + std::to_string(length) +
                              " bytes; at most " +
                              std::to_string(std::min(max_bytes, remaining())) + " are possible");
    }
    text->resize(static_cast<std::size_t>(length));
    return Bytes(what, std::as_writable_bytes(std::span(*text)));
  }

  Status SkipText(const char* what) {
    std::uint64_t length = 0;
    SKV_RETURN_IF_ERROR(Read(what, &length));
    return Skip(what, length, 1);
  }

  // Skips `count` elements of `element_bytes` each.
  Status Skip(const char* what, std::uint64_t count, std::uint64_t element_bytes) {
    if (count > remaining() / element_bytes) {
      return Status::DataLoss(std::string(what) + " claims " + std::to_string(count) +
                              " elements; the " + std::to_string(remaining()) +
                              " bytes left hold at most " +
                              std::to_string(remaining() / element_bytes));
    }
    position_ += count * element_bytes;
    return Status::Ok();
  }

 private:
  Status Bytes(const char* what, std::span<std::byte> out) {
    if (out.size() > remaining()) {
      return Status::DataLoss("the file ends within " + std::string(what) + " at byte " +
                              std::to_string(end_));
    }
    if (out.size() > kWindow) {
      SKV_RETURN_IF_ERROR(file_.Read(position_, out));
    } else {
      if (position_ < window_begin_ || position_ + out.size() > window_end_) {
        const std::uint64_t bytes = std::min<std::uint64_t>(kWindow, remaining());
        window_.resize(kWindow);
        SKV_RETURN_IF_ERROR(file_.Read(position_, std::span(window_).first(bytes)));
        window_begin_ = position_;
        window_end_ = position_ + bytes;
      }
      std::memcpy(out.data(), window_.data() + (position_ - window_begin_), out.size());
    }
    position_ += out.size();
    return Status::Ok();
  }

  static constexpr std::size_t kWindow = 65536;

  const MappedFile& file_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // file offsets that window_ holds
  std::uint64_t window_end_ = 0;
};

struct Header {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

Status CheckVersion(std::uint32_t version) {
  if (version == 2 || version == 3) return Status::Ok();
  if ((version & 0xFFFFU) == 0 && version != 0) {
    return Status::Unsupported("big-endian GGUF files are not read, only little-endian ones");
  }
  return Status::Unsupported("GGUF versions 2 and 3 are read; this file is version " +
                             std::to_string(version));
}

Status CheckCount(const char* what, std::uint64_t count, std::uint64_t limit, std::uint64_t room) {
  const std::uint64_t possible = std::min(limit, room);
  if (count <= possible) return Status::Ok();
  return Status::DataLoss("the header claims more " + std::string(what) + " than the " +
                          std::to_string(possible) +
                          " that are possible: " + std::to_string(count));
}

Result<Header> ReadHeader(FieldReader* reader, const GgufLimits& limits) {
  std::array<char, 4> magic = {};
  std::uint32_t version = 0;
  Header header;
  SKV_RETURN_IF_ERROR(reader->Read("the header", &magic));
  if (std::string_view(magic.data(), magic.size()) != "GGUF") {
    return Status::DataLoss("not a GGUF file: it starts with " +
                            QuotedForMessage(std::string(magic.data(), magic.size())));
  }
  SKV_RETURN_IF_ERROR(reader->Read("the header", &version));
  SKV_RETURN_IF_ERROR(CheckVersion(version));
  SKV_RETURN_IF_ERROR(reader->Read("the header", &header.tensors));
  SKV_RETURN_IF_ERROR(reader->Read("the header", &header.keys));
  constexpr std::uint64_t kSmallestKey = 8 + 1 + 4 + 1;             // bytes in the file
  constexpr std::uint64_t kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;  // bytes in the file
  SKV_RETURN_IF_ERROR(
      CheckCount("keys", header.keys, limits.max_keys, reader->remaining() / kSmallestKey));
  SKV_RETURN_IF_ERROR(CheckCount("tensors", header.tensors, limits.max_tensors,
                                 reader->remaining() / kSmallestTensor));
  return header;
}

// Names travel through C strings and messages.
Status CheckName(const char* what, const std::string& name) {
  if (name.empty()) return Status::DataLoss(std::string(what) + " has an empty name");
  const bool has_control =
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (has_control || !IsValidUtf8(name)) {
    return Status::DataLoss(std::string(what) +
                            " has a name that is not printable UTF-8: " + QuotedForMessage(name));
  }
  return Status::Ok();
}

class Scanner {
 public:
  Scanner(const MappedFile& file, const GgufLimits& limits)
      : file_(file), limits_(limits), reader_(file, limits.max_metadata_bytes) {}

  Status Run() {
    SKV_ASSIGN_OR_RETURN(const Header header, ReadHeader(&reader_, limits_));
    for (std::uint64_t i = 0; i < header.keys; ++i) {
      SKV_RETURN_IF_ERROR(CheckKey("key " + std::to_string(i)));
    }
    seen_.clear();
    for (std::uint64_t i = 0; i < header.tensors; ++i) {
      SKV_RETURN_IF_ERROR(ReadTensor("tensor " + std::to_string(i)));
    }
    return CheckPlaces();
  }

 private:
  struct TensorPlace {
    std::string name;
    std::uint64_t offset = 0;  // from the start of the data
    std::uint64_t bytes = 0;
  };

  Status CheckKey(const std::string& ordinal);
  Status CheckArray(const std::string& what);
  Status CheckAlignment(std::uint32_t type);
  Status ReadTensor(const std::string& ordinal);
  Result<std::uint64_t> ReadTensorBytes(const std::string& what);
  Status CheckPlaces() const;

  const MappedFile& file_;
  const GgufLimits& limits_;
  FieldReader reader_;
  std::unordered_set<std::string> seen_;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::vector<TensorPlace> places_;
};

Status Scanner::CheckKey(const std::string& ordinal) {
  std::string name;
  SKV_RETURN_IF_ERROR(
      reader_.Text(("the name of " + ordinal).c_str(), limits_.max_key_bytes, &name));
  SKV_RETURN_IF_ERROR(CheckName(ordinal.c_str(), name));
  const std::string what = "key " + QuotedForMessage(name);
  if (!seen_.insert(name).second) return Status::DataLoss(what + " appears twice");
  std::uint32_t type = 0;
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &type));
  if (name == GGUF_KEY_GENERAL_ALIGNMENT) return CheckAlignment(type);
  if (type == GGUF_TYPE_ARRAY) return CheckArray(what);
  if (type == GGUF_TYPE_STRING) return reader_.SkipText(what.c_str());
  if (type >= GGUF_TYPE_COUNT) {
    return Status::DataLoss(what + " has a value type that GGUF does not know (0 to " +
                            std::to_string(GGUF_TYPE_COUNT - 1) + "): " + std::to_string(type));
  }
  return reader_.Skip(what.c_str(), 1, kValueBytes[type]);
}

Status Scanner::CheckArray(const std::string& what) {
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &type));
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &count));
  if (type >= GGUF_TYPE_COUNT || type == GGUF_TYPE_ARRAY) {
    return Status::DataLoss(what +
                            " is an array whose elements are neither numbers nor strings but of "
                            "type " +
                            std::to_string(type));
  }
  const bool strings = type == GGUF_TYPE_STRING;
  const std::uint64_t limit = strings ? limits_.max_strings : limits_.max_array_elements;
  if (count > limit) {
    return Status::DataLoss(what + " claims more elements than the " + std::to_string(limit) +
                            " that are read: " + std::to_string(count));
  }
  if (!strings) return reader_.Skip(what.c_str(), count, kValueBytes[type]);
  for (std::uint64_t i = 0; i < count; ++i) {
    SKV_RETURN_IF_ERROR(reader_.SkipText(what.c_str()));
  }
  return Status::Ok();
}

Status Scanner::CheckAlignment(std::uint32_t type) {
  const std::string what = "key '" GGUF_KEY_GENERAL_ALIGNMENT "'";
  if (type != GGUF_TYPE_UINT32) {
    const char* name = type < GGUF_TYPE_COUNT ? gguf_type_name(static_cast<gguf_type>(type)) : "?";
    return Status::DataLoss(what + " must be a u32 number; it has type " + std::to_string(type) +
                            " (" + name + ")");
  }
  std::uint32_t value = 0;
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &value));
  const bool power_of_two = value != 0 && (value & (value - 1)) == 0;
  if (!power_of_two || value < kSmallestAlignment || value > kLargestAlignment) {
    return Status::DataLoss(what + " must be a power of two from " +
                            std::to_string(kSmallestAlignment) + " to " +
                            std::to_string(kLargestAlignment) + ", not " + std::to_string(value));
  }
  alignment_ = value;
  return Status::Ok();
}

Status Scanner::ReadTensor(const std::string& ordinal) {
  TensorPlace place;
  SKV_RETURN_IF_ERROR(
      reader_.Text(("the name of " + ordinal).c_str(), GGML_MAX_NAME - 1, &place.name));
  SKV_RETURN_IF_ERROR(CheckName(ordinal.c_str(), place.name));
  const std::string what = "tensor " + QuotedForMessage(place.name);
  if (!seen_.insert(place.name).second) return Status::DataLoss(what + " appears twice");
  SKV_ASSIGN_OR_RETURN(place.bytes, ReadTensorBytes(what));
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &place.offset));
  places_.push_back(std::move(place));
  return Status::Ok();
}

// Reads shape and type; returns the size of the data, checked against overflow.
Result<std::uint64_t> Scanner::ReadTensorBytes(const std::string& what) {
  std::uint32_t dimensions = 0;
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &dimensions));
  if (dimensions < 1 || dimensions > GGML_MAX_DIMS) {
    return Status::DataLoss(what + " must have 1 to " + std::to_string(GGML_MAX_DIMS) +
                            " dimensions, not " + std::to_string(dimensions));
  }
  // 2^48 elements of at most 16 bytes: products below stay within 64 bits.
  constexpr std::uint64_t kMaxElements = 1ULL << 48;
  std::uint64_t elements = 1;
  std::uint64_t columns = 0;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    std::uint64_t extent = 0;
    SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &extent));
    if (extent == 0 || extent > kMaxElements / elements) {
      return Status::DataLoss(what + " has an impossible extent in dimension " + std::to_string(d) +
                              ": " + std::to_string(extent));
    }
    elements *= extent;
    if (d == 0) columns = extent;
  }
  std::uint32_t type = 0;
  SKV_RETURN_IF_ERROR(reader_.Read(what.c_str(), &type));
  const bool known = type < GGML_TYPE_COUNT && ggml_blck_size(static_cast<ggml_type>(type)) > 0 &&
                     ggml_type_size(static_cast<ggml_type>(type)) > 0;
  if (!known) {
    return Status::Unsupported(what +
                               " has a type that ggml does not know: " + std::to_string(type));
  }
  const auto block = static_cast<std::uint64_t>(ggml_blck_size(static_cast<ggml_type>(type)));
  if (columns % block != 0) {
    return Status::DataLoss(what + " has rows that are no multiple of the " +
                            std::to_string(block) +
                            " values of a block: " + std::to_string(columns));
  }
  return elements / block * ggml_type_size(static_cast<ggml_type>(type));
}

// Tensors lie one after the other, each padded to the alignment; the last one's padding may be
// missing.
Status Scanner::CheckPlaces() const {
  const std::uint64_t start = (reader_.position() + alignment_ - 1) / alignment_ * alignment_;
  std::uint64_t expected = 0;
  for (const TensorPlace& place : places_) {
    const std::string what = "tensor " + QuotedForMessage(place.name);
    const std::uint64_t room = file_.size() < start ? 0 : file_.size() - start;
    if (place.bytes > room || place.offset > room - place.bytes) {
      return Status::DataLoss(what + " needs " + std::to_string(place.bytes) + " bytes from byte " +
                              std::to_string(place.offset) +
                              " of the data on, but the file has only " + std::to_string(room) +
                              " bytes of data; it is cut short or damaged");
    }
    if (place.offset != expected) {
      return Status::DataLoss(
          what +
          (place.offset < expected ? " overlaps the tensor before it" : " leaves a gap before it") +
          ": its data must start at byte " + std::to_string(expected) + " of the data, not " +
          std::to_string(place.offset));
    }
    expected += (place.bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  return Status::Ok();
}

}  // namespace

std::string QuotedForMessage(const std::string& text) {
  constexpr std::size_t kMaxBytes = 64;
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "'";
  const bool valid = IsValidUtf8(text) && text.size() <= kMaxBytes;
  for (const char raw : text.substr(0, kMaxBytes)) {
    const auto c = static_cast<unsigned char>(raw);
    if (c < 0x20 || c == 0x7F || (c >= 0x80 && !valid)) {
      quoted += {'\\', 'x', kHex[c / 16], kHex[c % 16]};
    } else {
      quoted += raw;
    }
  }
  quoted += text.size() > kMaxBytes ? "...'" : "'";
  return quoted;
}

Status CheckGgufStructure(const MappedFile& file, const GgufLimits& limits) {
  const Status status = Scanner(file, limits).Run();
  if (status.ok()) return status;
  return {status.code(), file.path() + ": " + status.message()};
}

}  // namespace swiftkv
