// SPDX-License-Identifier: Apache-2.0
// Measures what page formats lose: next-token distributions of one text, over each format's cache
// and over the exact one. Layer: engine.
//
// The text is cut into windows of `context` tokens, each of which starts a cache anew (with BOS in
// the place of its first token, where the model puts one before prompts). A window goes through
// every cache in steps of `chunk` tokens, all caches (sequences of one cache) side by side: the
// exact run's logits of a step are computed once, kept, and compared with every format's. What a
// step's rows read is what the cache holds, so a lossy format's newest tokens are read as they were
// stored.
//
// Positions that count are those with at least half a window before them, except the last, whose
// next token is in no window: positions [context / 2, context - 1). That is how llama.cpp's
// perplexity tool counts, so the figures can be set side by side.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/divergence.h"
#include "model/language_model.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct QualityTask {
  std::span<const TokenId> tokens;  // the text, without BOS; as many whole windows as it gives
  TokenId bos = kNoToken;           // first of every window; none where the model adds none
  int context = 2048;               // tokens of a window; fewer where the text has fewer
  int chunk = 32;                   // tokens of a step; fewer where their logits would pass
                                    // kMaxChunkLogitBytes
  std::vector<PageFormat> formats;
  std::shared_ptr<const KeyGuides> key_guides;  // of every lane but the exact one; may be null
  // Bound on the one cache that holds all lanes; 0: what they need. Formats that do not fit side by
  // side are measured in turn.
  std::uint64_t kv_bytes = 0;
};

inline constexpr int kLeastWindowTokens = 16;
inline constexpr std::uint64_t kMaxChunkLogitBytes = std::uint64_t{256} << 20;

// One row of the table that `eval` prints.
struct FormatQuality {
  std::string format;  // PageFormatName
  DivergenceFigures loss;
  double bits_per_value = 0;  // of K and V, scales included, averaged over what the cache holds
  std::uint64_t bytes = 0;    // of the slots that a window fills, at its end
};

struct QualityReport {
  int context = 0;  // as it was in the end
  int chunk = 0;
  int windows = 0;
  int passes = 0;                   // over the text, each with the exact lane and some formats
  std::uint64_t kv_peak_bytes = 0;  // the most that the cache had mapped
  std::vector<FormatQuality> rows;  // in the order of QualityTask::formats
};

// Measures. `progress` hears of every step; returning false cancels. Errors: InvalidArgument for a
// text below kLeastWindowTokens; Unsupported for a format that the model's shapes or the kernels do
// not serve; ResourceExhausted where one format beside the exact one passes the bound; Cancelled.
Result<QualityReport> EvaluateQuality(LanguageModel* model, const QualityTask& task,
                                      const ProgressCallback& progress,
                                      const std::atomic<bool>* cancel);

}  // namespace swiftkv
