// SPDX-License-Identifier: Apache-2.0
// Damages headers, keys, alignments and lengths of honest files, and gathers the whole table.
#include "support/hostile_gguf.h"

#include <cstdint>
#include <limits>
#include <ostream>
#include <utility>

#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

constexpr uint64_t kTwoTo32 = uint64_t{1} << 32U;
constexpr uint64_t kTwoTo40 = uint64_t{1} << 40U;
constexpr uint64_t kTwoTo60 = uint64_t{1} << 60U;
constexpr uint64_t kTwoTo63 = uint64_t{1} << 63U;
constexpr uint64_t kMinusOne = std::numeric_limits<uint64_t>::max();

RawGguf Honest() { return MakeTinyGguf(HonestModel()); }

// The 24 bytes of a header and nothing else.
std::string BareHeader(uint64_t tensors, uint64_t keys) {
  return "GGUF" + GgufBytes(uint32_t{3}) + GgufBytes(tensors) + GgufBytes(keys);
}

HostileGguf WithVersion(const std::string& name, uint32_t version, HostileVerdict verdict) {
  RawGguf gguf = Honest();
  gguf.version = version;
  return {name, SerializeGguf(gguf), verdict, ""};
}

HostileGguf WithKey(const std::string& name, RawGgufKey key, const std::string& names = "") {
  RawGguf gguf = Honest();
  gguf.keys.push_back(std::move(key));
  return {name, SerializeGguf(gguf), HostileVerdict::kMustFail, names};
}

HostileGguf WithAlignment(const std::string& name, RawGgufKey key, uint64_t padding,
                          HostileVerdict verdict) {
  RawGguf gguf = Honest();
  gguf.SetKey(std::move(key));
  gguf.alignment = padding;
  return {name, SerializeGguf(gguf), verdict,
          verdict == HostileVerdict::kMustFail ? "alignment" : ""};
}

void Append(std::vector<HostileGguf> part, std::vector<HostileGguf>* all) {
  for (HostileGguf& file : part) all->push_back(std::move(file));
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const HostileGguf& file) {
  return stream << file.name;
}

TinyModel HonestModel() {
  TinyModel model;
  model.name = "honest";
  model.shape = {.layers = 1,
                 .embedding = 32,
                 .feed_forward = 32,
                 .query_heads = 4,
                 .kv_heads = 2,
                 .head_dim = 16,
                 .vocabulary = 32,
                 .context = 512};
  return model;
}

TinyModel HonestModelWithText() {
  TinyModel model = HonestModel();
  model.name = "honest_text";
  model.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  return model;
}

std::vector<HostileGguf> HostileHeaders() {
  const auto fail = HostileVerdict::kMustFail;
  std::vector<HostileGguf> files;
  files.push_back({"empty_file", "", fail, ""});
  files.push_back({"magic_only", "GGUF", fail, ""});
  files.push_back({"not_gguf", std::string(4096, 'x'), fail, ""});
  files.push_back({"old_ggml_magic", "lmgg" + std::string(64, '\1'), fail, ""});
  files.push_back({"header_without_contents", BareHeader(0, 0), fail, ""});
  files.push_back({"tensor_count_2_32", BareHeader(kTwoTo32, 0), fail, ""});
  files.push_back({"tensor_count_2_60", BareHeader(kTwoTo60, 0), fail, ""});
  files.push_back({"tensor_count_2_63", BareHeader(kTwoTo63, 0), fail, ""});
  files.push_back({"tensor_count_minus_1", BareHeader(kMinusOne, 0), fail, ""});
  files.push_back({"key_count_2_32", BareHeader(0, kTwoTo32), fail, ""});
  files.push_back({"key_count_2_60", BareHeader(0, kTwoTo60), fail, ""});
  files.push_back({"key_count_2_63", BareHeader(0, kTwoTo63), fail, ""});
  files.push_back({"key_count_minus_1", BareHeader(0, kMinusOne), fail, ""});
  files.push_back(WithVersion("version_0", 0, fail));
  files.push_back(WithVersion("version_1", 1, fail));
  files.push_back(WithVersion("version_2", 2, HostileVerdict::kMayLoad));
  files.push_back(WithVersion("version_4", 4, fail));
  files.push_back(WithVersion("version_of_the_other_byte_order", 0x03000000, fail));
  RawGguf more_keys = Honest();
  more_keys.key_count = more_keys.keys.size() + 1;
  files.push_back({"one_key_too_many_claimed", SerializeGguf(more_keys), fail, ""});
  RawGguf fewer_keys = Honest();
  fewer_keys.key_count = fewer_keys.keys.size() - 1;
  files.push_back({"one_key_too_few_claimed", SerializeGguf(fewer_keys), fail, ""});
  RawGguf more_tensors = Honest();
  more_tensors.tensor_count = more_tensors.tensors.size() + 1;
  files.push_back({"one_tensor_too_many_claimed", SerializeGguf(more_tensors), fail, ""});
  return files;
}

std::vector<HostileGguf> HostileKeys() {
  const std::string nested = GgufBytes(uint32_t{kGgufU8}) + GgufBytes(uint64_t{1}) + "x";
  const std::string nested_strings =
      GgufBytes(uint32_t{kGgufString}) + GgufBytes(uint64_t{1}) + GgufStringBytes("deep");
  std::vector<HostileGguf> files;
  files.push_back(WithKey("empty_key", GgufU32Key("", 1)));
  files.push_back(
      WithKey("duplicate_key", GgufU32Key("llama.block_count", 1), "llama.block_count"));
  files.push_back(WithKey("key_with_nul", GgufU32Key(std::string("a\0b", 3), 1)));
  files.push_back(WithKey("key_in_broken_utf8", GgufU32Key("a\xC3\x28", 1)));
  files.push_back(WithKey("key_of_64_kib", GgufU32Key(std::string(65536, 'k'), 1)));
  files.push_back(WithKey("value_type_13", {"odd.key", 13, std::string(8, '\0')}, "odd.key"));
  files.push_back(
      WithKey("value_type_minus_1", {"odd.key", 0xFFFFFFFF, std::string(8, '\0')}, "odd.key"));
  files.push_back(WithKey("array_of_arrays", GgufArrayKey("odd.key", kGgufArray, 1, nested)));
  files.push_back(WithKey("array_of_arrays_of_strings",
                          GgufArrayKey("odd.key", kGgufArray, 1, nested_strings)));
  files.push_back(
      WithKey("array_of_type_13", GgufArrayKey("odd.key", 13, 1, std::string(8, '\0'))));
  files.push_back(
      WithKey("string_of_2_63_bytes", {"odd.key", kGgufString, GgufBytes(kTwoTo63) + "x"}));
  files.push_back(
      WithKey("string_of_minus_1_bytes", {"odd.key", kGgufString, GgufBytes(kMinusOne) + "x"}));
  files.push_back(WithKey("array_of_2_40_bytes", GgufArrayKey("odd.key", kGgufU8, kTwoTo40, "x")));
  files.push_back(WithKey("array_of_2_40_strings",
                          GgufArrayKey("odd.key", kGgufString, kTwoTo40, GgufStringBytes("x"))));
  files.push_back(
      WithKey("array_whose_bytes_overflow", GgufArrayKey("odd.key", kGgufU64, kTwoTo63, "x")));
  RawGguf long_key = Honest();
  std::string bytes = SerializeGguf(long_key);
  bytes.replace(24, 8, GgufBytes(kTwoTo63));  // the length of the first key's name
  files.push_back({"key_name_of_2_63_bytes", bytes, HostileVerdict::kMustFail, ""});
  return files;
}

std::vector<HostileGguf> HostileAlignments() {
  const std::string key = "general.alignment";
  const auto fail = HostileVerdict::kMustFail;
  const auto may = HostileVerdict::kMayLoad;
  std::vector<HostileGguf> files;
  files.push_back(WithAlignment("alignment_as_i32", GgufI32Key(key, 32), 32, fail));
  files.push_back(WithAlignment("alignment_as_string", GgufStringKey(key, "32"), 32, fail));
  files.push_back(WithAlignment("alignment_as_array", GgufI32sKey(key, {32}), 32, fail));
  files.push_back(WithAlignment("alignment_0", GgufU32Key(key, 0), 32, fail));
  files.push_back(WithAlignment("alignment_3", GgufU32Key(key, 3), 3, fail));
  files.push_back(WithAlignment("alignment_2_31", GgufU32Key(key, 0x80000000U), 32, fail));
  // Powers of two, hence legal: below the size of a float the weights lie unaligned in the mapping.
  files.push_back(WithAlignment("alignment_1", GgufU32Key(key, 1), 1, may));
  files.push_back(WithAlignment("alignment_2", GgufU32Key(key, 2), 2, may));
  files.push_back(WithAlignment("alignment_4096", GgufU32Key(key, 4096), 4096, may));
  for (HostileGguf& file : files) {
    // The file's own word for it is enough of a name where the padding is what is wrong.
    if (file.name == "alignment_2_31") file.names = "";
  }
  return files;
}

std::vector<HostileGguf> TruncatedGgufs() {
  const std::string whole = SerializeGguf(Honest());
  const auto fail = HostileVerdict::kMustFail;
  std::vector<HostileGguf> files;
  files.push_back({"cut_at_10_percent", whole.substr(0, whole.size() / 10), fail, ""});
  files.push_back({"cut_at_50_percent", whole.substr(0, whole.size() / 2), fail, ""});
  files.push_back({"cut_at_99_percent", whole.substr(0, whole.size() * 99 / 100), fail, ""});
  files.push_back({"cut_by_one_byte", whole.substr(0, whole.size() - 1), fail, ""});
  files.push_back({"cut_in_the_header", whole.substr(0, 20), fail, ""});
  files.push_back({"cut_in_the_first_key", whole.substr(0, 40), fail, ""});
  return files;
}

const std::vector<HostileGguf>& HostileGgufs() {
  static const std::vector<HostileGguf> files = [] {
    std::vector<HostileGguf> all;
    Append(HostileHeaders(), &all);
    Append(HostileKeys(), &all);
    Append(HostileAlignments(), &all);
    Append(HostileShapes(), &all);
    Append(HostileVocabularies(), &all);
    Append(HostileTensors(), &all);
    Append(TruncatedGgufs(), &all);
    return all;
  }();
  return files;
}

}  // namespace swiftkv
