// SPDX-License-Identifier: Apache-2.0
// Walks a GGUF through every unit that reads it.
#include "support/model_trial.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/architecture.h"
#include "model/gguf_file.h"
#include "model/vocabulary.h"
#include "support/paged_model.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kMostWeightBytes = std::uint64_t{64} << 20U;

// What `inspect` shows: every key and every tensor.
void ReadEverything(const GgufFile& file) {
  std::size_t read = 0;
  for (const std::string& key : file.Keys()) read += file.ValueText(key).size();
  for (const GgufTensor& tensor : file.tensors()) {
    read += std::string(TensorTypeName(tensor.type)).size() + ShapeText(tensor.shape).size();
  }
  SKV_CHECK(read < (std::size_t{1} << 31U), "texts for people are short");
}

Status TryVocabulary(const std::string& path, const GgufFile& file) {
  SKV_ASSIGN_OR_RETURN(const auto model, file.FindString("tokenizer.ggml.model"));
  if (!model.has_value() || *model == "none" || *model == "no_vocab") return Status::Ok();
  SKV_ASSIGN_OR_RETURN(const auto vocabulary, Vocabulary::Load(path));
  SKV_ASSIGN_OR_RETURN(const auto tokens, vocabulary->EncodeText("the end \xC3\xA9"));
  std::string text;
  for (const TokenId token : tokens) text += vocabulary->TokenToPiece(token);
  return Status::Ok();
}

Status TryForward(const std::string& path) {
  PagedModelOptions options;
  options.context = 64;
  options.max_chunk = 4;
  options.cache_bytes = std::uint64_t{16} << 20U;
  SKV_ASSIGN_OR_RETURN(const auto paged, PagedModel::Load(path, options));
  const int vocabulary = paged->model().spec().vocab_size;
  const std::vector<TokenId> tokens = {0, vocabulary - 1, vocabulary / 2};
  SKV_ASSIGN_OR_RETURN(const Logits logits, paged->Append(tokens));
  const bool finite = std::all_of(logits.values.begin(), logits.values.end(),
                                  [](float value) { return std::isfinite(value); });
  return finite ? Status::Ok() : Status::Internal("a logit is not finite");
}

}  // namespace

Status TryModelFile(const std::string& path) {
  SKV_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  ReadEverything(*file);
  SKV_ASSIGN_OR_RETURN(const std::string name, file->RequireString("general.architecture"));
  SKV_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(name));
  SKV_ASSIGN_OR_RETURN(const DecoderSpec spec, architecture->Describe(*file, {}));
  SKV_CHECK(!spec.layers.empty(), "a described decoder has layers");
  SKV_RETURN_IF_ERROR(TryVocabulary(path, *file));
  if (file->file_bytes() > kMostWeightBytes) return Status::Ok();
  return TryForward(path);
}

Status TryModelBytes(const std::string& bytes) {
  const int descriptor = memfd_create("gguf", MFD_CLOEXEC);
  SKV_CHECK(descriptor >= 0, "tests can make files in memory");
  const ssize_t written = write(descriptor, bytes.data(), bytes.size());
  SKV_CHECK(written == static_cast<ssize_t>(bytes.size()));
  const Status status = TryModelFile("/proc/self/fd/" + std::to_string(descriptor));
  close(descriptor);
  return status;
}

}  // namespace swiftkv
