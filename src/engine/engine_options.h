// SPDX-License-Identifier: Apache-2.0
// Holds the options of cache and generation and describes those of the model. Layer: engine.
//
// Plain data without any knowledge of flags; see option_field.h for how fields describe themselves.
#pragma once

#include <optional>
#include <string>

#include "engine/option_field.h"
#include "model/language_model.h"
#include "swiftkv/engine.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/quality.h"
#include "swiftkv/status.h"

namespace swiftkv {

// The word that leaves the choice of a format to calibration.
inline constexpr const char* kAutomaticFormat = "auto";

// Return what flags accept, with commas between: the named pairs, alone and with `auto`; the single
// formats; the attention backends.
std::string NamedPageFormats();
std::string PageFormatChoices();
std::string PlaneFormatChoices();
std::string AttentionBackendNames();
// The forgetting policies, and the word for none.
std::string PolicyChoices();

struct CacheOptions {
  std::string format = "f16";      // of both planes of a page: a named pair, or kAutomaticFormat
  std::string key_format;          // a single format; empty: as `format`
  std::string value_format;        // likewise
  MemoryLimit memory;              // hard bound on pages and their metadata
  std::optional<Quality> quality;  // ceiling; none: what the formats give
  bool force = false;              // even a format that ruins the model's replies
};

struct GenerationOptions {
  int max_tokens = -1;  // of one reply; -1: until the reply ends or the context is full
};

// The parts of ModelOptions, for subcommands that have no use for all of them.
template <typename Visitor>
void VisitModelPath(Visitor&& visit, ModelOptions& options) {
  visit(OptionField{"-m,--model", "model", "FILE",
                    "GGUF model; of a split model the first file (default: $SWIFTKV_MODEL, else "
                    "the model that the set-up fetched)"},
        options.path);
}

template <typename Visitor>
void VisitComputing(Visitor&& visit, ModelOptions& options) {
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
      OptionField{"--precise", "precise", "",
                  "Compute attention in f32 throughout and linear layers by ggml, whatever faster "
                  "arithmetic the CPU has"},
      options.precise);
  visit(OptionField{.flags = "--linear",
                    .key = "linear",
                    .placeholder = "NAME",
                    .help = "What multiplies by the weights (auto: the fastest for each weight and "
                            "number of rows, measured once)",
                    .choices = LinearBackendNames},
        options.linear);
  visit(
      OptionField{
          "--no-repack", "repack", "",
          "Compute with the weights as the file lays them out, not in a layout for this CPU"},
      options.use_repacked_weights);
  visit(OptionField{"--packed-weights", "packed_weights", "SIZE",
                    "Memory for weights kept unpacked where that speeds prompts and batches up: "
                    "off, auto or a size"},
        options.packed_weights);
  visit(OptionField{"--chunk", "chunk", "TOKENS",
                    "Most tokens of a prompt computed in one step; 0: by the measured speed", 0,
                    65536},
        options.max_batch_rows);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, ModelOptions& options) {
  VisitModelPath(visit, options);
  visit(OptionField{"-c,--context", "context", "TOKENS",
                    "Longest context of a sequence; 0: the model's maximum; reserves nothing"},
        options.context);
  VisitComputing(visit, options);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, CacheOptions& options) {
  visit(OptionField{.flags = "--kv",
                    .key = "kv",
                    .placeholder = "FORMAT",
                    .help = "Format of the cache's pages (auto: the smallest that calibration "
                            "finds good on this model)",
                    .choices = PageFormatChoices},
        options.format);
  visit(OptionField{.flags = "--kv-k",
                    .key = "kv_k",
                    .placeholder = "FORMAT",
                    .help = "Format of keys, where it differs from --kv",
                    .choices = PlaneFormatChoices},
        options.key_format);
  visit(OptionField{.flags = "--kv-v",
                    .key = "kv_v",
                    .placeholder = "FORMAT",
                    .help = "Format of values, where it differs from --kv",
                    .choices = PlaneFormatChoices},
        options.value_format);
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Hard bound on the cache's memory, e.g. 512MiB; auto: what the machine or "
                    "cgroup leaves"},
        options.memory);
  visit(OptionField{"--quality", "quality", "LEVEL",
                    "Worst grade that the cache may have: exact, near or any (default: that of "
                    "the format)"},
        options.quality);
  visit(OptionField{"--force", "force", "",
                    "Use a format even where calibration found that it ruins this model"},
        options.force);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, Forgetting& options) {
  visit(OptionField{.flags = "--policy",
                    .key = "policy",
                    .placeholder = "NAME[:key=value,...]",
                    .help = "What is forgotten first, with --ratio or --kv-budget; sets the "
                            "ceiling and the level of requests that say nothing to any",
                    .choices = PolicyChoices},
        options.policy);
  visit(OptionField{"--ratio", "ratio", "R",
                    "Fraction of a long prompt's cache that is removed, from 0 to below 1"},
        options.ratio);
  visit(OptionField{"--kv-budget", "kv_budget", "N[tokens|MiB]",
                    "What of a sequence is kept at most, whatever its length"},
        options.budget);
  visit(OptionField{"--kept-as", "kept_as", "FORMAT=SHARE",
                    "Store that part of what --policy keeps which matters least in a smaller "
                    "format, e.g. int8=0.5; same: none"},
        options.kept_as);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, GenerationOptions& options) {
  visit(OptionField{"-n,--max-tokens", "max_tokens", "N",
                    "Most tokens of a reply; -1: until it ends or the context is full", -1},
        options.max_tokens);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, EngineLimits& options) {
  visit(OptionField{"--max-seqs", "max_seqs", "N", "Replies that are computed together at most", 1,
                    65536},
        options.max_sequences);
  visit(OptionField{"--queue", "queue", "N", "Requests that wait for a place at most", 1, 1 << 20},
        options.max_queue);
}

// Reads a format as people write it: a named pair, or "key/value" of two single formats. Errors:
// InvalidArgument with what is accepted.
Result<PageFormat> ParsePageFormat(const std::string& text);

// Whether calibration chooses the format.
bool WantsAutomaticFormat(const CacheOptions& options);

// Returns both planes' formats, defaults and overrides filled in. Errors: InvalidArgument for an
// unknown name, with what is accepted, and where calibration has yet to choose.
Result<PageFormat> PageFormatOf(const CacheOptions& options);

// Checks formats and their grade against the ceiling. Errors: InvalidArgument with what is
// accepted.
Status ValidateCacheOptions(const CacheOptions& options);

// Returns what requests forget that do not say otherwise; nothing where no flag says so.
std::optional<Forgetting> ForgettingOf(const Forgetting& options);

// Checks what can be checked before a model is loaded, the ceiling too. Errors: InvalidArgument.
Status ValidateForgetting(const Forgetting& options, const CacheOptions& cache);

}  // namespace swiftkv
