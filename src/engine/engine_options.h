// SPDX-License-Identifier: Apache-2.0
// Holds the options of cache and generation and describes those of the model. Layer: engine.
//
// Plain data without any knowledge of flags; see option_field.h for how fields describe themselves.
#pragma once

#include <optional>
#include <string>

#include "engine/option_field.h"
#include "model/language_model.h"
#include "swiftkv/quality.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Return the names of the table's rows, "f16, bf16, f32".
std::string FormatNames();
std::string AttentionBackendNames();

struct CacheOptions {
  std::string format = "f16";      // of both planes of a page; a name of the format table
  std::string key_format;          // empty: as `format`
  std::string value_format;        // empty: as `format`
  MemoryLimit memory;              // hard bound on pages and their metadata
  std::optional<Quality> quality;  // ceiling; none: what the formats give
};

struct GenerationOptions {
  int max_tokens = -1;  // of one reply; -1: until the reply ends or the context is full
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, ModelOptions& options) {
  visit(OptionField{"-m,--model", "model", "FILE",
                    "GGUF model; of a split model the first file (default: $SWIFTKV_MODEL, else "
                    "the model that the set-up fetched)"},
        options.path);
  visit(OptionField{"-c,--context", "context", "TOKENS",
                    "Longest context of a sequence; 0: the model's maximum; reserves nothing"},
        options.context);
  visit(OptionField{"-t,--threads", "threads", "N",
                    "Threads that compute; 0: the cores that this process may use", 0, 1024},
        options.threads);
  visit(OptionField{.flags = "--attention",
                    .key = "attention",
                    .placeholder = "NAME",
                    .help = "Attention backend",
                    .choices = AttentionBackendNames},
        options.attention_backend);
  visit(OptionField{"--isa", "isa", "NAME",
                    "Instruction set of the attention kernels; auto: the best that the CPU has"},
        options.isa);
  visit(
      OptionField{
          "--no-repack", "repack", "",
          "Compute with the weights as the file lays them out, not in a layout for this CPU"},
      options.use_repacked_weights);
  visit(OptionField{"--chunk", "chunk", "TOKENS", "Most tokens of a prompt computed in one step", 1,
                    65536},
        options.max_batch_rows);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, CacheOptions& options) {
  visit(OptionField{.flags = "--kv",
                    .key = "kv",
                    .placeholder = "FORMAT",
                    .help = "Format of the cache's pages",
                    .choices = FormatNames},
        options.format);
  visit(OptionField{"--kv-k", "kv_k", "FORMAT", "Format of keys, where it differs from --kv"},
        options.key_format);
  visit(OptionField{"--kv-v", "kv_v", "FORMAT", "Format of values, where it differs from --kv"},
        options.value_format);
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Hard bound on the cache's memory, e.g. 512MiB; auto: what the machine or "
                    "cgroup leaves"},
        options.memory);
  visit(OptionField{"--quality", "quality", "LEVEL",
                    "Worst grade that the cache may have: exact, near or any (default: that of "
                    "the format)"},
        options.quality);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, GenerationOptions& options) {
  visit(OptionField{"-n,--max-tokens", "max_tokens", "N",
                    "Most tokens of a reply; -1: until it ends or the context is full", -1},
        options.max_tokens);
}

// The formats after defaults are filled in.
const std::string& KeyFormatOf(const CacheOptions& options);
const std::string& ValueFormatOf(const CacheOptions& options);

// Checks formats and their grade against the ceiling. Errors: InvalidArgument or Unsupported, with
// what is accepted.
Status ValidateCacheOptions(const CacheOptions& options);

}  // namespace swiftkv
