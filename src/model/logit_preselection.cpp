// SPDX-License-Identifier: Apache-2.0
// Keeps the k best in a heap: once it is warm, nearly every block of logits is skipped.
#include "model/logit_preselection.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "llama.h"

namespace swiftkv {

namespace {

constexpr std::size_t kBlock = 64;  // logits that are skipped together

// Branch-free, so that the compiler may use vectors.
bool AnyAbove(std::span<const float> block, float threshold) {
  std::uint32_t above = 0;
  for (const float logit : block) above |= logit > threshold ? 1U : 0U;
  return above != 0;
}

}  // namespace

LogitScan ScanLogits(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Independent lanes, so that the compiler may use vectors without reordering one running maximum.
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> best;
  best.fill(-kInfinity);
  std::array<std::uint32_t, kLanes> bad{};
  const auto take = [&](float logit, std::size_t lane) {
    best[lane] = logit > best[lane] ? logit : best[lane];
    bad[lane] |= logit < kInfinity ? 0U : 1U;  // 1 for NaN too
  };
  const std::size_t whole = logits.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(logits[i + lane], lane);
  }
  for (std::size_t i = whole; i < logits.size(); ++i) take(logits[i], i - whole);
  LogitScan scan{true, -kInfinity};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    scan.best = std::max(scan.best, best[lane]);
    scan.finite = scan.finite && bad[lane] == 0;
  }
  return scan;
}

void LogitPreselection::AddEdited(TokenId token) {
  if (IsEdited(token)) return;
  marks_[static_cast<std::size_t>(token)] = mark_;
  edited_.push_back(token);
}

void LogitPreselection::Keep(std::pair<float, TokenId> row, std::size_t k) {
  // Pairs compare by logit, then by -id: of equals the lower id is better.
  const auto worst_first = std::greater<std::pair<float, TokenId>>();
  if (heap_.size() == k) {
    std::pop_heap(heap_.begin(), heap_.end(), worst_first);
    heap_.pop_back();
  }
  heap_.push_back(row);
  std::push_heap(heap_.begin(), heap_.end(), worst_first);
}

void LogitPreselection::Select(std::span<const float> logits, std::size_t k,
                               std::vector<llama_token_data>* candidates) {
  heap_.clear();
  float threshold = -std::numeric_limits<float>::infinity();  // of a full heap
  for (std::size_t begin = 0; begin < logits.size() && k > 0; begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (heap_.size() == k && !AnyAbove(block, threshold)) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      // Ids ascend, so an equal logit is always worse than what the heap holds.
      if (heap_.size() == k && !(block[i] > threshold)) continue;
      const auto token = static_cast<TokenId>(begin + i);
      if (IsEdited(token)) continue;
      Keep({block[i], -token}, k);
      threshold = heap_.front().first;
    }
  }
  candidates->clear();
  for (const auto& [logit, negated] : heap_) candidates->push_back({-negated, logit, 0.0F});
  for (const TokenId token : edited_) {
    candidates->push_back({token, logits[static_cast<std::size_t>(token)], 0.0F});
  }
  std::sort(candidates->begin(), candidates->end(),
            [](const llama_token_data& a, const llama_token_data& b) {
              return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
            });
}

}  // namespace swiftkv
