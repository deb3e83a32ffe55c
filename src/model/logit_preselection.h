// SPDX-License-Identifier: Apache-2.0
// Picks the few logits that a sampler chain with a top-k can choose from, so that the rest need not
// pass it. Layer: model.
//
// Owner: one sampler. Exact: let the edited tokens be those whose logits bias or penalties may
// change. After the edits, a token among the k best is either edited, or among the k best of those
// that are not. So the edited tokens and the k best of the others hold all k best, and a chain that
// begins with top-k gives the same result on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/vocabulary.h"

struct llama_token_data;

namespace swiftkv {

// What a scan of all logits found.
struct LogitScan {
  bool finite = false;  // no NaN and no +infinity
  float best = 0.0F;
};

class LogitPreselection {
 public:
  explicit LogitPreselection(int vocabulary_size)
      : marks_(static_cast<std::size_t>(vocabulary_size), 0) {}

  // Looks at every logit, [vocabulary size] f32, once: Select then skips what cannot be among the
  // best without looking again.
  LogitScan Scan(std::span<const float> logits);

  // Forgets the edited tokens of the last draw.
  void Start() {
    ++mark_;
    edited_.clear();
  }

  // Names a token that the chain may edit; again is harmless.
  void AddEdited(TokenId token);

  // Fills `candidates` with the edited tokens and the `k` best of the others, ordered by logit and
  // then by id. `logits`: those of the last Scan, without NaN.
  void Select(std::span<const float> logits, std::size_t k,
              std::vector<llama_token_data>* candidates);

  std::size_t edited_count() const { return edited_.size(); }

 private:
  bool IsEdited(TokenId token) const { return marks_[static_cast<std::size_t>(token)] == mark_; }

  // Puts (logit, -id) into the heap and drops the worst of more than `k`.
  void Keep(std::pair<float, TokenId> row, std::size_t k);

  std::vector<float> block_best_;     // [blocks of logits] of the last Scan
  std::vector<std::uint32_t> marks_;  // [vocabulary size], equal to mark_ where edited
  std::uint32_t mark_ = 0;
  std::vector<TokenId> edited_;
  std::vector<std::pair<float, TokenId>> heap_;  // (logit, -id): the worst of the k best on top
};

}  // namespace swiftkv
