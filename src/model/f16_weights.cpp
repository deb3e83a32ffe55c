// SPDX-License-Identifier: Apache-2.0
// Implements the rewrite with libllama's own quantiser.
#include "model/f16_weights.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "ggml.h"
#include "llama.h"
#include "model/llama_guard.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kMetadataSlack = 4ULL << 20;    // keys may grow a little, never much
constexpr std::size_t kConversionBytes = 256ULL << 20;  // rows held as F32 at once

Status CannotWrite(const std::string& folder, const std::string& reason) {
  return Status::NotFound("a folder that takes files is needed for the F16 weights (" + reason +
                          "); folder: " + folder);
}

// Opens a file that no folder lists.
Result<int> OpenUnnamed(const std::string& folder) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
  // Some file systems cannot make a file without a name; there it loses its name at once.
  const std::string pattern = folder + "/swiftkv-f16-XXXXXX";
  std::vector<char> name(pattern.c_str(), pattern.c_str() + pattern.size() + 1);
  descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(folder, std::strerror(errno));
  ::unlink(name.data());
  return descriptor;
}

Status NoRoom(const std::string& folder, std::uint64_t needed, std::uint64_t left) {
  return Status::ResourceExhausted("the F16 weights need " + FormatByteSize(needed) + " in " +
                                   folder + ", which has room for " + FormatByteSize(left));
}

Status Quantize(const std::string& from, const std::string& to, int threads) {
  const LlamaGuard guard;
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = std::max(threads, 1);
  params.ftype = LLAMA_FTYPE_MOSTLY_F16;
  params.allow_requantize = true;
  params.max_buf_size = kConversionBytes;
  try {
    if (llama_model_quantize(from.c_str(), to.c_str(), &params) == 0) return Status::Ok();
  } catch (const std::exception& error) {
    return Status::Internal("the weights of " + from +
                            " cannot be written as F16: " + guard.Reason(error.what()));
  }
  return Status::Internal("the weights of " + from +
                          " cannot be written as F16: " + guard.Reason("no reason was given"));
}

}  // namespace

bool HasUnroundedWeights(const GgufFile& file) {
  return std::all_of(file.tensors().begin(), file.tensors().end(), [](const GgufTensor& tensor) {
    return tensor.type == GGML_TYPE_F32 || tensor.type == GGML_TYPE_F16;
  });
}

std::uint64_t F16FileBytes(const GgufFile& file) {
  std::uint64_t bytes = kMetadataSlack;
  for (int i = 0; i < file.num_shards(); ++i) bytes += file.data_offset(i);
  for (const GgufTensor& tensor : file.tensors()) {
    std::uint64_t values = 1;
    for (const std::int64_t extent : tensor.shape) values *= static_cast<std::uint64_t>(extent);
    // Vectors stay F32.
    bytes += values * (tensor.type == GGML_TYPE_F32 && tensor.shape[1] == 1 ? 4 : 2) + 64;
  }
  return bytes;
}

Result<std::uint64_t> FreeBytesIn(const std::string& folder) {
  struct statvfs volume = {};
  if (::statvfs(folder.c_str(), &volume) != 0) return CannotWrite(folder, std::strerror(errno));
  return std::uint64_t{volume.f_bavail} * volume.f_frsize;
}

F16Weights::F16Weights(int descriptor)
    : descriptor_(descriptor), path_("/proc/self/fd/" + std::to_string(descriptor)) {}

F16Weights::~F16Weights() { ::close(descriptor_); }

Result<std::unique_ptr<F16Weights>> F16Weights::Write(const GgufFile& file,
                                                      const std::string& folder, int threads) {
  const std::uint64_t needed = F16FileBytes(file);
  SKV_ASSIGN_OR_RETURN(const std::uint64_t left, FreeBytesIn(folder));
  if (left < needed) return NoRoom(folder, needed, left);
  SKV_ASSIGN_OR_RETURN(const int descriptor, OpenUnnamed(folder));
  std::unique_ptr<F16Weights> weights(new F16Weights(descriptor));
  const Status written = Quantize(file.path(), weights->path(), threads);
  if (written.ok()) return weights;
  // The library only says that a write failed; a full disk is told by what is left.
  const Result<std::uint64_t> left_now = FreeBytesIn(folder);
  if (left_now.ok() && *left_now < kMetadataSlack) return NoRoom(folder, needed, *left_now);
  return written;
}

}  // namespace swiftkv
