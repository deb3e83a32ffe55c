// SPDX-License-Identifier: Apache-2.0
// Gives the tests of tokens and sampling their vocabularies: tiny ones written on the spot and
// those of real models.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "model/vocabulary.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {

inline std::unique_ptr<Vocabulary> LoadOrFail(const std::string& path) {
  auto vocabulary = Vocabulary::Load(path);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  return vocabulary.ok() ? std::move(vocabulary).value() : nullptr;
}

// Writes a GGUF, as it is or changed, and loads its vocabulary.
inline Result<std::unique_ptr<Vocabulary>> LoadRaw(const RawGguf& gguf) {
  const TempDirectory directory;
  const std::string path = directory.FilePath("tiny.gguf");
  const Status written = WriteBytes(path, SerializeGguf(gguf));
  if (!written.ok()) return written;
  return Vocabulary::Load(path);
}

inline TinyModel TinyModelWith(TinyTokenizer tokenizer) {
  TinyModel model;
  model.name = "tiny";
  model.shape.layers = 1;
  model.tokenizer = std::move(tokenizer);
  return model;
}

inline std::unique_ptr<Vocabulary> TinyVocabularyWith(TinyTokenizer tokenizer) {
  auto vocabulary = LoadRaw(MakeTinyGguf(TinyModelWith(std::move(tokenizer))));
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  return vocabulary.ok() ? std::move(vocabulary).value() : nullptr;
}

// SentencePiece as Llama 2 has it: BOS first, a space before texts, ChatML's markers as control
// tokens.
inline TinyTokenizer SentencePieceTokenizer() {
  TinyTokenizer tokenizer;
  tokenizer.kind = TinyVocabularyKind::kSpm;
  tokenizer.control_tokens = {"<|im_start|>", "<|im_end|>"};
  tokenizer.bos = "<s>";
  tokenizer.eos = "</s>";
  tokenizer.add_bos = true;
  return tokenizer;
}

}  // namespace swiftkv
