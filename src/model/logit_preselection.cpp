// SPDX-License-Identifier: Apache-2.0
// Finds the best of each block of logits, then keeps the k best of all in a heap: once it is warm,
// nearly every block is skipped.
#include "model/logit_preselection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>

#include "llama.h"

namespace swiftkv {
namespace {

constexpr std::size_t kBlock = 64;  // logits that are skipped together
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Quad = float __attribute__((vector_size(16)));
using QuadMask = std::int32_t __attribute__((vector_size(16)));  // -1 where true

// The best of logits, and whether any is +infinity or not a number.
struct BlockScan {
  float best = -kInfinity;
  bool is_bad = false;
};

BlockScan ScanTail(std::span<const float> logits) {
  BlockScan scan;
  for (const float logit : logits) {
    scan.best = logit > scan.best ? logit : scan.best;
    scan.is_bad = scan.is_bad || !(logit < kInfinity);
  }
  return scan;
}

BlockScan ScanBlock(std::span<const float, kBlock> logits) {
  constexpr std::size_t kLanes = 4;
  constexpr std::size_t kQuads = 4;  // that do not wait for one another
  const Quad infinity = {kInfinity, kInfinity, kInfinity, kInfinity};
  std::array<Quad, kQuads> best = {-infinity, -infinity, -infinity, -infinity};
  QuadMask good = {-1, -1, -1, -1};
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    Quad quad;
    std::memcpy(&quad, logits.data() + i, sizeof(quad));
    Quad& most = best[i / kLanes % kQuads];
    most = quad > most ? quad : most;
    good &= quad < infinity;  // not so for NaN either
  }
  BlockScan scan;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (const Quad& quad : best) scan.best = quad[lane] > scan.best ? quad[lane] : scan.best;
    scan.is_bad = scan.is_bad || good[lane] == 0;
  }
  return scan;
}

}  // namespace

LogitScan LogitPreselection::Scan(std::span<const float> logits) {
  block_best_.clear();
  LogitScan scan{true, -kInfinity};
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto rest = logits.subspan(begin);
    const BlockScan block = rest.size() < kBlock ? ScanTail(rest) : ScanBlock(rest.first<kBlock>());
    block_best_.push_back(block.best);
    scan.best = std::max(scan.best, block.best);
    scan.finite = scan.finite && !block.is_bad;
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
  float threshold = -kInfinity;  // of a full heap
  for (std::size_t begin = 0; begin < logits.size() && k > 0; begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (heap_.size() == k && !(block_best_[begin / kBlock] > threshold)) continue;
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
