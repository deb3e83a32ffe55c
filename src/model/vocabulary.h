// SPDX-License-Identifier: Apache-2.0
// Translates between text and the token ids of one model. Layer: model.
//
// Owner: whoever loaded it; it must outlive samplers, templates and text streams made from it. All
// const functions may be called from several threads. Backed by libllama's vocabulary (no weights
// are read).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "swiftkv/status.h"

struct llama_vocab;

namespace swiftkv {

using TokenId = std::int32_t;
inline constexpr TokenId kNoToken = -1;

// A stretch of prompt text and whether its author may write control tokens. Only text of the
// model's own chat template (and of a raw prompt) is trusted; what users, tools and earlier replies
// say is not.
struct TextPart {
  std::string text;
  bool trusted = false;

  friend bool operator==(const TextPart&, const TextPart&) = default;
};

struct EncodeOptions {
  bool add_bos =
      true;  // put BOS first where the model wants one and the text does not already start with it
  // The text follows other tokens: no BOS and no SentencePiece space is put before it.
  bool continues = false;
  // User-defined tokens that untrusted text must not form (markers that a chat template is
  // built from). Control tokens never form in untrusted text.
  std::span<const TokenId> forbidden;
};

class Vocabulary {
 public:
  // Reads the vocabulary of a GGUF file. Errors: NotFound when the file cannot be opened; DataLoss
  // when it is damaged, with the loader's own reason; Unsupported when the tokenizer is not one
  // that the pinned libllama knows.
  static Result<std::unique_ptr<Vocabulary>> Load(const std::string& path);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int size() const;  // number of ids, and of logits per position
  bool Contains(TokenId token) const { return token >= 0 && token < size(); }

  // kNoToken where the model has none.
  TokenId bos() const;
  TokenId eos() const;
  bool adds_bos() const;  // prompts start with BOS

  // All tokens that end a reply, ascending: end of text, of turn, of message, as the file names
  // them, as their texts tell, and as the chat template shows. They stop generation and show no
  // text.
  const std::vector<TokenId>& end_of_generation_tokens() const;
  bool IsEndOfGeneration(TokenId token) const;
  bool IsControl(TokenId token) const;
  bool IsUserDefined(TokenId token) const;
  // Tokens that the model's own metadata forbids to sample.
  const std::vector<TokenId>& suppressed_tokens() const;

  // Returns the bytes that the token stands for; not always whole characters. Control tokens give
  // nothing, or their name where `show_control`. Undefined ids give nothing.
  std::string TokenToPiece(TokenId token, bool show_control = false) const;

  // Returns the control or user-defined token whose text is exactly `text`, or kNoToken.
  TokenId FindSpecialToken(std::string_view text) const;

  // Returns the user-defined tokens that a chat template with this source may build turns from: fit
  // for EncodeOptions::forbidden.
  std::vector<TokenId> MarkersWithin(std::string_view template_source) const;

  // Returns where untrusted text would have to be broken to keep control tokens and `forbidden`
  // ones from forming: byte offsets inside each occurrence, ascending.
  std::vector<std::size_t> BreakingPoints(std::string_view text,
                                          std::span<const TokenId> forbidden) const;

  // Turns a raw prompt into tokens: control tokens may be written out in it, and BOS comes first,
  // once, where the model wants it. Errors: InvalidArgument when no token comes out (an empty
  // prompt on a model without BOS).
  Result<std::vector<TokenId>> EncodePrompt(std::string_view text) const;

  // Turns a rendered chat into tokens. The parts are tokenised as one text, so ids do not depend on
  // where parts meet; but control tokens are recognised only where they lie wholly in trusted text.
  // Errors: InvalidArgument for text that is not UTF-8 or that the vocabulary cannot spell.
  Result<std::vector<TokenId>> Encode(std::span<const TextPart> parts,
                                      const EncodeOptions& options) const;

  // Turns plain text into tokens: no BOS, no control tokens.
  Result<std::vector<TokenId>> EncodeText(std::string_view text) const;

  // The Jinja source of the model's chat template; empty where it has none.
  const std::string& chat_template_source() const;

  // The tokenizer library's own handle, for the units of this layer.
  const llama_vocab* handle() const;

 private:
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
