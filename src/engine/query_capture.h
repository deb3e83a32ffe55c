// SPDX-License-Identifier: Apache-2.0
// Keeps of a sequence's queries what its policy looks at. Layer: engine.
//
// Owner: the sequence. Add is called by the threads of a step, which take different heads; all else
// by the engine's thread between steps. Only layers without a window are observed: the others
// forget by themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/decoder_spec.h"
#include "model/query_sink.h"
#include "model/recent_queries.h"
#include "policy/query_statistics.h"
#include "policy/score_inputs.h"

namespace swiftkv {

class QueryCapture final : public QuerySink {
 public:
  // `observed`: the newest queries that are kept, where `needs` asks for probabilities. `spec`
  // outlives the object.
  QueryCapture(const DecoderSpec& spec, const ScoreNeeds& needs, int observed);

  void Add(const SliceQueries& queries, int thread, int num_threads) override;

  // Null where the policy does not need them, or the layer has a window.
  const QueryStatistics* statistics(int layer) const;
  const RecentQueries* recent() const { return recent_ ? &*recent_ : nullptr; }

  // For a fork, which goes on from here.
  std::unique_ptr<QueryCapture> Clone() const { return std::make_unique<QueryCapture>(*this); }

 private:
  const DecoderSpec* spec_;
  std::vector<std::optional<QueryStatistics>> statistics_;  // [layers], or empty
  std::optional<RecentQueries> recent_;
};

}  // namespace swiftkv
