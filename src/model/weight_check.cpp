// SPDX-License-Identifier: Apache-2.0
// Implements the check of a file's tensors against a decoder's list.
#include "model/weight_check.h"

#include <string_view>
#include <unordered_set>

#include "base/status_macros.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace swiftkv {
namespace {

Status RefuseUnknownTensors(const GgufFile& file, std::span<const WeightSlot> slots) {
  std::unordered_set<std::string_view> wanted;
  for (const WeightSlot& slot : slots) wanted.insert(slot.name);
  for (const GgufTensor& tensor : file.tensors()) {
    if (wanted.contains(tensor.name) || IsIgnorableTensor(tensor.name)) continue;
    return file.Unsupported(
        "the supported decoders (embedding, attention with optional biases and norms, gated "
        "feed-forward, output) have no use for tensor '" +
        tensor.name + "'");
  }
  return Status::Ok();
}

bool IsComputable(ggml_type type, WeightUse use) {
  if (use == WeightUse::kMatrix) return ggml_get_type_traits_cpu(type)->vec_dot != nullptr;
  return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
}

}  // namespace

Status CheckWeights(const GgufFile& file, std::span<const WeightSlot> slots) {
  for (const WeightSlot& slot : slots) {
    const GgufTensor* tensor = file.FindTensor(slot.name);
    if (tensor == nullptr) {
      if (slot.required) return file.Damaged("tensor '" + slot.name + "' is missing");
      continue;
    }
    const std::array<std::int64_t, 4> wanted = {slot.columns, slot.rows, 1, 1};
    if (tensor->shape != wanted) {
      return file.Damaged("tensor '" + slot.name + "' must have shape " + ShapeText(wanted) +
                          " by the metadata, not " + ShapeText(tensor->shape));
    }
    if (!IsComputable(static_cast<ggml_type>(tensor->type), slot.use)) {
      return file.Unsupported("ggml does not compute with tensor '" + slot.name + "' of type " +
                              TensorTypeName(tensor->type));
    }
  }
  return RefuseUnknownTensors(file, slots);
}

}  // namespace swiftkv
