// SPDX-License-Identifier: Apache-2.0
// Writes the metadata of each family beside its weights.
#include "support/tiny_gguf.h"

#include <array>
#include <cstdio>
#include <fstream>

#include "support/tiny_tensors.h"
#include "support/tiny_vocabulary.h"

namespace swiftkv {
namespace {

void SetCount(const std::string& name, int value, RawGguf* gguf) {
  gguf->SetKey(GgufU32Key(name, static_cast<uint32_t>(value)));
}

void SetShape(const TinyModel& model, RawGguf* gguf) {
  const TinyShape& s = model.shape;
  const std::string arch = TinyFamilyName(model.family);
  SetCount(arch + ".block_count", s.layers, gguf);
  SetCount(arch + ".context_length", s.context, gguf);
  SetCount(arch + ".embedding_length", s.embedding, gguf);
  SetCount(arch + ".feed_forward_length", s.feed_forward, gguf);
  SetCount(arch + ".attention.head_count", s.query_heads, gguf);
  SetCount(arch + ".attention.head_count_kv", s.kv_heads, gguf);
  gguf->SetKey(GgufF32Key(arch + ".attention.layer_norm_rms_epsilon", 1e-5F));
  // As converters do: the head size is written where it does not follow from the width.
  if (s.head_dim * s.query_heads != s.embedding) {
    SetCount(arch + ".attention.key_length", s.head_dim, gguf);
    SetCount(arch + ".attention.value_length", s.head_dim, gguf);
  }
  if (model.family == TinyFamily::kLlama || model.family == TinyFamily::kPhi3) {
    SetCount(arch + ".rope.dimension_count", s.head_dim, gguf);
  }
  if (model.family == TinyFamily::kGemma3) {
    SetCount(arch + ".attention.sliding_window", model.window.tokens, gguf);
    // Absent where it is the family's own pattern, as in the published files.
    if (model.window.pattern != 6) {
      SetCount(arch + ".attention.sliding_window_pattern", model.window.pattern, gguf);
    }
  }
}

void SetRope(const TinyModel& model, RawGguf* gguf) {
  const TinyRope& rope = model.rope;
  const std::string prefix = std::string(TinyFamilyName(model.family)) + ".rope.";
  gguf->SetKey(GgufF32Key(prefix + "freq_base", rope.freq_base));
  const char* type = nullptr;
  if (rope.scaling == TinyRopeScaling::kLinear) type = "linear";
  if (rope.scaling == TinyRopeScaling::kYarn) type = "yarn";
  if (rope.scaling == TinyRopeScaling::kLongRope) type = "longrope";
  if (type != nullptr) gguf->SetKey(GgufStringKey(prefix + "scaling.type", type));
  if (rope.factor != 1.0F) gguf->SetKey(GgufF32Key(prefix + "scaling.factor", rope.factor));
  if (rope.original_context != 0) {
    SetCount(prefix + "scaling.original_context_length", rope.original_context, gguf);
  }
  if (rope.attention_factor != 1.0F) {
    gguf->SetKey(GgufF32Key(prefix + "scaling.attn_factor", rope.attention_factor));
  }
}

void SetSpecialToken(const char* key, const std::string& text, const TinyVocabulary& vocabulary,
                     RawGguf* gguf) {
  if (text.empty()) return;
  SetCount(std::string("tokenizer.ggml.") + key, vocabulary.IdOf(text), gguf);
}

// Returns the number of tokens.
int SetTokenizer(const TinyModel& model, RawGguf* gguf) {
  const TinyTokenizer& tokenizer = model.tokenizer;
  const std::string arch = TinyFamilyName(model.family);
  if (!tokenizer.chat_template.empty()) {
    gguf->SetKey(GgufStringKey("tokenizer.chat_template", tokenizer.chat_template));
  }
  if (tokenizer.kind == TinyVocabularyKind::kNone) {
    gguf->SetKey(GgufStringKey("tokenizer.ggml.model", "none"));
    SetCount(arch + ".vocab_size", model.shape.vocabulary, gguf);
    return model.shape.vocabulary;
  }
  const TinyVocabulary vocabulary = MakeTinyVocabulary(tokenizer);
  const bool spm = tokenizer.kind == TinyVocabularyKind::kSpm;
  gguf->SetKey(GgufStringKey("tokenizer.ggml.model", spm ? "llama" : "gpt2"));
  if (!spm) gguf->SetKey(GgufStringKey("tokenizer.ggml.pre", "gpt-2"));
  gguf->SetKey(GgufStringsKey("tokenizer.ggml.tokens", vocabulary.tokens));
  gguf->SetKey(GgufI32sKey("tokenizer.ggml.token_type", vocabulary.types));
  if (spm) gguf->SetKey(GgufF32sKey("tokenizer.ggml.scores", vocabulary.scores));
  if (!spm) gguf->SetKey(GgufStringsKey("tokenizer.ggml.merges", vocabulary.merges));
  gguf->SetKey(GgufBoolKey("tokenizer.ggml.add_bos_token", tokenizer.add_bos));
  SetSpecialToken("bos_token_id", tokenizer.bos, vocabulary, gguf);
  SetSpecialToken("eos_token_id", tokenizer.eos, vocabulary, gguf);
  SetSpecialToken("eot_token_id", tokenizer.eot, vocabulary, gguf);
  return static_cast<int>(vocabulary.tokens.size());
}

}  // namespace

RawGguf MakeTinyGguf(const TinyModel& model) {
  RawGguf gguf;
  gguf.SetKey(GgufStringKey("general.architecture", TinyFamilyName(model.family)));
  gguf.SetKey(GgufStringKey("general.name", model.name));
  gguf.SetKey(GgufU32Key("general.file_type", 0));  // all F32
  SetShape(model, &gguf);
  SetRope(model, &gguf);
  const int vocabulary = SetTokenizer(model, &gguf);
  for (const TinyTensor& tensor : TinyTensors(model, vocabulary)) {
    RawGgufTensor raw;
    raw.name = tensor.name;
    raw.shape.assign(tensor.shape.begin(), tensor.shape.end());
    raw.data = GgufBytes(TinyTensorValues(tensor, model.seed));
    gguf.tensors.push_back(std::move(raw));
  }
  return gguf;
}

std::vector<RawGguf> MakeTinySplit(const TinyModel& model, int parts) {
  RawGguf whole = MakeTinyGguf(model);
  const auto total = whole.tensors.size();
  std::vector<RawGguf> files(static_cast<size_t>(parts));
  files[0].keys = whole.keys;
  for (size_t i = 0; i < total; ++i) {
    files[i * files.size() / total].tensors.push_back(std::move(whole.tensors[i]));
  }
  for (size_t part = 0; part < files.size(); ++part) {
    files[part].SetKey(GgufU16Key("split.no", static_cast<uint16_t>(part)));
    files[part].SetKey(GgufU16Key("split.count", static_cast<uint16_t>(parts)));
    files[part].SetKey(GgufI32Key("split.tensors.count", static_cast<int32_t>(total)));
  }
  return files;
}

Status WriteBytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return Status::Internal("cannot write the test file " + path.string());
  return Status::Ok();
}

Result<std::string> WriteTinyGguf(const TinyModel& model, const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / (model.name + ".gguf");
  const Status written = WriteBytes(path, SerializeGguf(MakeTinyGguf(model)));
  if (!written.ok()) return written;
  return path.string();
}

Result<std::vector<std::string>> WriteTinySplit(const TinyModel& model, int parts,
                                                const std::filesystem::path& directory) {
  std::vector<std::string> paths;
  for (const RawGguf& file : MakeTinySplit(model, parts)) {
    std::array<char, 32> suffix{};
    std::snprintf(suffix.data(), suffix.size(), "-%05d-of-%05d.gguf",
                  static_cast<int>(paths.size()) + 1, parts);
    const std::filesystem::path path = directory / (model.name + suffix.data());
    const Status written = WriteBytes(path, SerializeGguf(file));
    if (!written.ok()) return written;
    paths.push_back(path.string());
  }
  return paths;
}

}  // namespace swiftkv
