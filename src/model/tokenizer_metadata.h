// SPDX-License-Identifier: Apache-2.0
// Checks a model's vocabulary metadata before libllama builds a vocabulary from them.
//
// libllama sizes tables by these numbers and indexes arrays of one length by indices of another.
#pragma once

#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Errors: DataLoss for arrays of wrong types or lengths, or a number of tokens that the embedding
// does not have; Unsupported for a kind of tokenizer that no supported family uses.
Status CheckTokenizerMetadata(const GgufFile& file);

}  // namespace swiftkv
