// SPDX-License-Identifier: Apache-2.0
// Hashes block keys with OpenSSL's SHA-256.
//
//     root  = SHA-256("SKVROOT1", then per field: tag byte, u64 length, bytes)
//     child = SHA-256("SKVBLCK1", parent's 32 bytes, u64 number of tokens, i32 tokens)
//     segment = SHA-256("SKVSEGM1", last dense block's 32 bytes, u64 length of the recipe, its
//     bytes)
//
// Numbers are little-endian. Tag and length make the encoding of the fields unambiguous; the first
// eight bytes keep roots, children and segments apart.
#include "cache/block_key.h"

#include <openssl/evp.h>

#include <bit>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace swiftkv {
namespace {

static_assert(std::endian::native == std::endian::little, "keys are hashed from memory as it lies");

class Sha256 {
 public:
  explicit Sha256(std::string_view domain) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    // Looked up once: the look-up costs more than hashing a block.
    static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
    SKV_CHECK(context_ != nullptr && algorithm != nullptr);
    SKV_CHECK(EVP_DigestInit_ex(context_.get(), algorithm, nullptr) == 1);
    Add(domain.data(), domain.size());
  }

  void Add(const void* data, std::size_t bytes) {
    SKV_CHECK(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
  }

  void AddNumber(std::uint64_t number) { Add(&number, sizeof(number)); }

  void AddField(std::uint8_t tag, const void* data, std::size_t bytes) {
    Add(&tag, 1);
    AddNumber(bytes);
    Add(data, bytes);
  }

  BlockKey Finish() {
    BlockKey key;
    unsigned size = 0;
    SKV_CHECK(EVP_DigestFinal_ex(context_.get(), key.bytes.data(), &size) == 1);
    SKV_CHECK(size == key.bytes.size());
    return key;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// Part of every stored key: never renumber.
enum FieldTag : std::uint8_t {
  kModelFingerprint = 1,
  kTenantSalt = 2,
  kRequestSalt = 3,
  kAdapter = 4,
  kLineage = 5,
};

}  // namespace

std::size_t BlockKeyHash::operator()(const BlockKey& key) const {
  std::size_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof(hash));
  return hash;
}

BlockKey RootKey(const KeyRoot& root) {
  Sha256 hash("SKVROOT1");
  hash.AddField(kModelFingerprint, root.model_fingerprint.data(), root.model_fingerprint.size());
  hash.AddField(kTenantSalt, root.tenant_salt.data(), root.tenant_salt.size());
  hash.AddField(kRequestSalt, root.request_salt.data(), root.request_salt.size());
  hash.AddField(kAdapter, root.adapter.data(), root.adapter.size());
  hash.AddField(kLineage, root.lineage.bytes.data(), root.lineage.bytes.size());
  return hash.Finish();
}

BlockKey ChildKey(const BlockKey& parent, std::span<const std::int32_t> tokens) {
  Sha256 hash("SKVBLCK1");
  hash.Add(parent.bytes.data(), parent.bytes.size());
  hash.AddNumber(tokens.size());
  hash.Add(tokens.data(), tokens.size_bytes());
  return hash.Finish();
}

BlockKey SegmentKey(const BlockKey& dense, std::string_view recipe) {
  Sha256 hash("SKVSEGM1");
  hash.Add(dense.bytes.data(), dense.bytes.size());
  hash.AddNumber(recipe.size());
  hash.Add(recipe.data(), recipe.size());
  return hash.Finish();
}

std::string ToHex(const BlockKey& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * key.bytes.size());
  for (const std::uint8_t byte : key.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace swiftkv
