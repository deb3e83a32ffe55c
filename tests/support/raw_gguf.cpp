// SPDX-License-Identifier: Apache-2.0
// Writes the header, keys, tensor table and data of a GGUF file into a string.
#include "support/raw_gguf.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace swiftkv {
namespace {

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
  }
  return bytes;
}

uint32_t FloatBits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void PadTo(uint64_t alignment, std::string* bytes) {
  if (alignment == 0) return;
  while (bytes->size() % alignment != 0) bytes->push_back('\0');
}

template <typename T>
T& Named(std::vector<T>* items, const std::string& name) {
  const auto found =
      std::find_if(items->begin(), items->end(), [&](const T& item) { return item.name == name; });
  SKV_CHECK(found != items->end(), "a test names a key or tensor that the file has");
  return *found;
}

template <typename T>
void Remove(std::vector<T>* items, const std::string& name) {
  std::erase_if(*items, [&](const T& item) { return item.name == name; });
}

}  // namespace

std::string GgufBytes(uint16_t value) { return LittleEndian(value); }
std::string GgufBytes(uint32_t value) { return LittleEndian(value); }
std::string GgufBytes(uint64_t value) { return LittleEndian(value); }

std::string GgufBytes(const std::vector<float>& values) {
  std::string bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) bytes += LittleEndian(FloatBits(value));
  return bytes;
}

std::string GgufStringBytes(const std::string& value) {
  return LittleEndian(static_cast<uint64_t>(value.size())) + value;
}

RawGgufKey GgufU16Key(const std::string& name, uint16_t value) {
  return {name, kGgufU16, LittleEndian(value)};
}

RawGgufKey GgufU32Key(const std::string& name, uint32_t value) {
  return {name, kGgufU32, LittleEndian(value)};
}

RawGgufKey GgufI32Key(const std::string& name, int32_t value) {
  return {name, kGgufI32, LittleEndian(static_cast<uint32_t>(value))};
}

RawGgufKey GgufF32Key(const std::string& name, float value) {
  return {name, kGgufF32, LittleEndian(FloatBits(value))};
}

RawGgufKey GgufBoolKey(const std::string& name, bool value) {
  return {name, kGgufBool, std::string(1, value ? '\1' : '\0')};
}

RawGgufKey GgufStringKey(const std::string& name, const std::string& value) {
  return {name, kGgufString, GgufStringBytes(value)};
}

RawGgufKey GgufStringsKey(const std::string& name, const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += GgufStringBytes(value);
  return GgufArrayKey(name, kGgufString, values.size(), elements);
}

RawGgufKey GgufI32sKey(const std::string& name, const std::vector<int32_t>& values) {
  std::string elements;
  for (const int32_t value : values) elements += LittleEndian(static_cast<uint32_t>(value));
  return GgufArrayKey(name, kGgufI32, values.size(), elements);
}

RawGgufKey GgufF32sKey(const std::string& name, const std::vector<float>& values) {
  return GgufArrayKey(name, kGgufF32, values.size(), GgufBytes(values));
}

RawGgufKey GgufArrayKey(const std::string& name, uint32_t type, uint64_t count,
                        const std::string& elements) {
  return {name, kGgufArray, LittleEndian(type) + LittleEndian(count) + elements};
}

RawGgufKey& RawGguf::Key(const std::string& name) { return Named(&keys, name); }
RawGgufTensor& RawGguf::Tensor(const std::string& name) { return Named(&tensors, name); }
void RawGguf::RemoveKey(const std::string& name) { Remove(&keys, name); }
void RawGguf::RemoveTensor(const std::string& name) { Remove(&tensors, name); }

void RawGguf::SetKey(RawGgufKey key) {
  for (RawGgufKey& existing : keys) {
    if (existing.name == key.name) {
      existing = std::move(key);
      return;
    }
  }
  keys.push_back(std::move(key));
}

std::string SerializeGguf(const RawGguf& gguf) {
  std::string file = gguf.magic;
  file += LittleEndian(gguf.version);
  file += LittleEndian(gguf.tensor_count.value_or(gguf.tensors.size()));
  file += LittleEndian(gguf.key_count.value_or(gguf.keys.size()));
  for (const RawGgufKey& key : gguf.keys) {
    file += GgufStringBytes(key.name) + LittleEndian(key.type) + key.payload;
  }
  std::string data;
  for (const RawGgufTensor& tensor : gguf.tensors) {
    PadTo(gguf.alignment, &data);
    file += GgufStringBytes(tensor.name);
    file +=
        LittleEndian(tensor.dimension_count.value_or(static_cast<uint32_t>(tensor.shape.size())));
    for (const uint64_t extent : tensor.shape) file += LittleEndian(extent);
    file += LittleEndian(tensor.type);
    file += LittleEndian(tensor.offset.value_or(data.size()));
    data += tensor.data;
  }
  PadTo(gguf.alignment, &data);
  if (!gguf.tensors.empty()) PadTo(gguf.alignment, &file);
  return file + data;
}

}  // namespace swiftkv
