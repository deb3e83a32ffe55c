// SPDX-License-Identifier: Apache-2.0
// Loads what benches of a model measure with: the model, the formats that its kernels compute, and
// one cache for all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/option_field.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"
#include "tools/bench_formats.h"

namespace swiftkv {

struct BenchParts {
  std::string path;
  std::unique_ptr<LanguageModel> model;
  std::vector<BenchFormat> formats;
  std::unique_ptr<KvCache> cache;  // null until OpenBenchCache
};

// Returns model and formats. Errors: those of loading; InvalidArgument for an unknown format,
// Unsupported where the kernels do not compute one that was named, or none at all.
Result<BenchParts> LoadBenchParts(const ModelOptions& options, const NameList& formats);

// Makes the cache, with guides for keys where a format has use for them. Errors: those of
// Vocabulary, KeyGuideStore, ResolveKvBytes and KvCache.
Status OpenBenchCache(const MemoryLimit& memory, BenchParts* parts);

// Returns the formats of keys and values as a sequence takes them.
KvFormat KvFormatOf(const BenchFormat& format);

}  // namespace swiftkv
