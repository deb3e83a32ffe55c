// SPDX-License-Identifier: Apache-2.0
// Implements packing of weights within a limit.
#include "model/packed_weights.h"

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kShareOfMemory = 4;  // a quarter
constexpr int kManyRows = kMeasuredRows[kNumMeasuredRows - 1];

}  // namespace

Result<PackedLimit> ParsePackedLimit(const std::string& text) {
  if (text == "off") return PackedLimit{};
  if (text == "auto") return PackedLimit{.automatic = true};
  const Result<std::uint64_t> bytes = ParseByteSize(text);
  if (bytes.ok()) return PackedLimit{.bytes = *bytes};
  return Status::InvalidArgument("packed weights take off, auto or a size such as 512MiB, not: " +
                                 text);
}

Status PackedWeights::Pack(std::span<const ggml_tensor* const> matrices, const LinearChoice& choice,
                           const PackedLimit& limit) {
  std::uint64_t most = limit.bytes;
  if (limit.automatic) {
    SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
    most = available / kShareOfMemory;
  }
  for (const ggml_tensor* matrix : matrices) {
    const LinearBackend* backend = choice.Find(*matrix, kManyRows);
    if (backend == nullptr || entries_.contains(matrix)) continue;
    const LinearShape shape = {matrix->type, matrix->ne[0], matrix->ne[1]};
    const std::uint64_t size = RoundToCacheLine(backend->PackedBytes(shape));
    if (size == 0 || size > most - bytes_) continue;
    Entry entry;
    entry.backend = backend;
    entry.memory = AllocateAligned(size);
    if (entry.memory == nullptr) {
      return Status::ResourceExhausted("not enough memory for packed weights beyond " +
                                       FormatByteSize(bytes_) +
                                       "; allow fewer than: " + FormatByteSize(most));
    }
    backend->Pack(shape, matrix->data, entry.memory.get());
    entries_.emplace(matrix, std::move(entry));
    bytes_ += size;
  }
  return Status::Ok();
}

const std::byte* PackedWeights::Find(const ggml_tensor* weight,
                                     const LinearBackend* backend) const {
  const auto found = entries_.find(weight);
  return found == entries_.end() || found->second.backend != backend ? nullptr
                                                                     : found->second.memory.get();
}

}  // namespace swiftkv
