// SPDX-License-Identifier: Apache-2.0
// Implements the fingerprint with OpenSSL's SHA-256.
#include "model/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kChunkBytes = 1 << 20;

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, FreeDigest>;
using Hash = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string InHex(std::span<const unsigned char> bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text += {kHex[byte / 16], kHex[byte % 16]};
  return text;
}

Status HashRange(const MappedFile& file, std::uint64_t offset, std::uint64_t bytes,
                 EVP_MD_CTX* digest) {
  std::vector<std::byte> chunk;
  while (bytes > 0) {
    chunk.resize(static_cast<std::size_t>(std::min(bytes, kChunkBytes)));
    SKV_RETURN_IF_ERROR(file.Read(offset, chunk));
    EVP_DigestUpdate(digest, chunk.data(), chunk.size());
    offset += chunk.size();
    bytes -= chunk.size();
  }
  return Status::Ok();
}

}  // namespace

Result<std::string> ModelFingerprint(const GgufFile& file) {
  const Digest digest(EVP_MD_CTX_new());
  if (digest == nullptr || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1) {
    return Status::Internal("OpenSSL has no SHA-256");
  }
  for (int i = 0; i < file.num_shards(); ++i) {
    SKV_RETURN_IF_ERROR(HashRange(*file.shard(i), 0, file.data_offset(i), digest.get()));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const std::uint64_t sample = std::min(tensor.bytes, kSampleBytes);
    const std::uint64_t slack = tensor.bytes - sample;
    for (const std::uint64_t at : {std::uint64_t{0}, slack / 2, slack}) {
      SKV_RETURN_IF_ERROR(
          HashRange(*file.shard(tensor.shard), tensor.offset + at, sample, digest.get()));
    }
  }
  Hash hash = {};
  unsigned int length = 0;
  EVP_DigestFinal_ex(digest.get(), hash.data(), &length);
  return InHex(std::span(hash).first(length));
}

std::string TextFingerprint(std::string_view text) {
  Hash hash = {};
  unsigned int length = 0;
  SKV_CHECK(EVP_Digest(text.data(), text.size(), hash.data(), &length, EVP_sha256(), nullptr) == 1);
  return InHex(std::span(hash).first(length));
}

}  // namespace swiftkv
