// SPDX-License-Identifier: Apache-2.0
// Serialises GGUF files field by field, honest ones and hostile ones alike.
//
// Every count, length, type and offset can be overridden, since a hostile file is an honest one
// with one field changed. Little-endian, as the format is. Spec: docs/gguf.md of the ggml project.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace swiftkv {

// The value types of GGUF metadata, as they stand in the file.
enum GgufValueType : uint32_t {
  kGgufU8 = 0,
  kGgufI8 = 1,
  kGgufU16 = 2,
  kGgufI16 = 3,
  kGgufU32 = 4,
  kGgufI32 = 5,
  kGgufF32 = 6,
  kGgufBool = 7,
  kGgufString = 8,
  kGgufArray = 9,
  kGgufU64 = 10,
  kGgufI64 = 11,
  kGgufF64 = 12,
};

// Tensor types used here, as they stand in the file.
inline constexpr uint32_t kGgufTensorF32 = 0;
inline constexpr uint32_t kGgufTensorF16 = 1;

struct RawGgufKey {
  std::string name;
  uint32_t type = kGgufU32;
  std::string payload;  // the bytes that follow the type
};

RawGgufKey GgufU16Key(const std::string& name, uint16_t value);
RawGgufKey GgufU32Key(const std::string& name, uint32_t value);
RawGgufKey GgufI32Key(const std::string& name, int32_t value);
RawGgufKey GgufF32Key(const std::string& name, float value);
RawGgufKey GgufBoolKey(const std::string& name, bool value);
RawGgufKey GgufStringKey(const std::string& name, const std::string& value);
RawGgufKey GgufStringsKey(const std::string& name, const std::vector<std::string>& values);
RawGgufKey GgufI32sKey(const std::string& name, const std::vector<int32_t>& values);
RawGgufKey GgufF32sKey(const std::string& name, const std::vector<float>& values);
// An array whose header claims `count` elements of `type` and whose bytes are `elements`.
RawGgufKey GgufArrayKey(const std::string& name, uint32_t type, uint64_t count,
                        const std::string& elements);

struct RawGgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // contiguous extent first
  uint32_t type = kGgufTensorF32;
  std::string data;
  std::optional<uint64_t> offset;           // from the start of the data; otherwise the honest one
  std::optional<uint32_t> dimension_count;  // otherwise shape.size()
};

struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count;  // otherwise tensors.size()
  std::optional<uint64_t> key_count;     // otherwise keys.size()
  std::vector<RawGgufKey> keys;
  std::vector<RawGgufTensor> tensors;
  uint64_t alignment = 32;  // bytes; used for padding only, the key is the caller's

  // Returns the key or tensor with this name; it must exist.
  RawGgufKey& Key(const std::string& name);
  RawGgufTensor& Tensor(const std::string& name);
  // Replaces the key of the same name, or appends.
  void SetKey(RawGgufKey key);
  void RemoveKey(const std::string& name);
  void RemoveTensor(const std::string& name);
};

// Returns the bytes of `value`, little-endian.
std::string GgufBytes(uint16_t value);
std::string GgufBytes(uint32_t value);
std::string GgufBytes(uint64_t value);
std::string GgufBytes(const std::vector<float>& values);
// Returns a length-prefixed string as GGUF stores it.
std::string GgufStringBytes(const std::string& value);

// Returns the whole file.
std::string SerializeGguf(const RawGguf& gguf);

}  // namespace swiftkv
