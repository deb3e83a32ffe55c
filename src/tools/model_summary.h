// SPDX-License-Identifier: Apache-2.0
// Collects what `inspect` shows of a GGUF file, as plain data, without loading weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/decoder_spec.h"
#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct TensorTypeSummary {
  std::string type;  // "q4_1"
  std::size_t count = 0;
  std::uint64_t bytes = 0;
};

// Layers with the same span of attention and the same shape: they share frames of the cache.
struct LayerGroupSummary {
  int layers = 0;
  int window = 0;  // tokens; 0: all
  int query_heads = 0;
  int kv_heads = 0;
};

struct FormatSummary {
  std::string name;
  std::string quality;
  double bits_per_value = 0;
  std::uint64_t bytes_per_token = 0;   // all layers
  std::uint64_t bytes_at_context = 0;  // filled slots of a sequence as long as the context
};

struct ModelSummary {
  std::string path;
  std::string architecture;  // empty where the file does not say
  std::string family;        // what the architecture serves; empty where it is not supported
  Status runs;               // OK, or why the model cannot be run
  std::uint64_t file_bytes = 0;
  int files = 1;
  std::uint64_t parameters = 0;
  std::optional<DecoderSpec> spec;  // where the metadata could be read
  std::vector<LayerGroupSummary> groups;
  std::vector<FormatSummary> formats;
  std::vector<TensorTypeSummary> tensor_types;  // most bytes first
  int vocabulary_size = 0;                      // 0 where the tokenizer cannot be read
  bool has_chat_template = false;
};

// Never fails: what cannot be read is left out, and `runs` says why.
ModelSummary SummarizeModel(const GgufFile& file);

}  // namespace swiftkv
