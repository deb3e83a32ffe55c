// SPDX-License-Identifier: Apache-2.0
// Implements the check of vocabulary metadata.
#include "model/tokenizer_metadata.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr const char* kTokenizers[] = {"llama", "gpt2", "none", "no_vocab"};

Status CheckKind(const GgufFile& file, const std::string& kind) {
  std::string names;
  for (const char* known : kTokenizers) {
    if (kind == known) return Status::Ok();
    names += std::string(names.empty() ? "" : ", ") + known;
  }
  return file.Unsupported("tokenizers supported are " + names +
                          "; key 'tokenizer.ggml.model' is '" + kind + "'");
}

// Checks that an optional array has an entry for every token; more do no harm.
Status CheckPerToken(const GgufFile& file, const std::string& key, std::uint64_t tokens) {
  SKV_ASSIGN_OR_RETURN(const auto length, file.FindArrayLength(key));
  if (!length || *length >= tokens) return Status::Ok();
  return file.Damaged("key '" + key + "' must have an entry for each of the " +
                      std::to_string(tokens) + " tokens, not " + std::to_string(*length));
}

}  // namespace

Status CheckTokenizerMetadata(const GgufFile& file) {
  SKV_ASSIGN_OR_RETURN(const std::string kind, file.RequireString("tokenizer.ggml.model"));
  SKV_RETURN_IF_ERROR(CheckKind(file, kind));
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return file.Damaged("tensor 'token_embd.weight' is missing");
  const std::int64_t rows = embedding->shape[1];
  if (kind == "none" || kind == "no_vocab") {
    SKV_ASSIGN_OR_RETURN(const std::string architecture,
                         file.RequireString("general.architecture"));
    SKV_ASSIGN_OR_RETURN(const auto size, file.FindInt(architecture + ".vocab_size", {rows, rows}));
    (void)size;
    return Status::Ok();
  }
  SKV_ASSIGN_OR_RETURN(const auto tokens, file.FindStringCount("tokenizer.ggml.tokens"));
  if (!tokens) return file.Damaged("the metadata lack the key 'tokenizer.ggml.tokens'");
  if (static_cast<std::int64_t>(*tokens) != rows) {
    return file.Damaged("key 'tokenizer.ggml.tokens' has " + std::to_string(*tokens) +
                        " tokens, but tensor 'token_embd.weight' has " + std::to_string(rows));
  }
  SKV_RETURN_IF_ERROR(CheckPerToken(file, "tokenizer.ggml.token_type", *tokens));
  return CheckPerToken(file, "tokenizer.ggml.scores", *tokens);
}

}  // namespace swiftkv
