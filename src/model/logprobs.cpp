// SPDX-License-Identifier: Apache-2.0
// Sums exponentials in double, so that the error of 250,000 terms stays below a float's own.
#include "model/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"

namespace swiftkv {
namespace {

double LogSumExp(std::span<const float> logits) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return best + std::log(sum);
}

TokenLogprob At(std::span<const float> logits, TokenId token, double log_sum) {
  // Rounding must not make a probability above one.
  const double logprob = std::min(0.0, logits[static_cast<std::size_t>(token)] - log_sum);
  return {token, static_cast<float>(logprob)};
}

}  // namespace

TokenLogprob LogprobOf(std::span<const float> logits, TokenId token) {
  SKV_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  return At(logits, token, LogSumExp(logits));
}

std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, int count) {
  const std::size_t kept = std::min(logits.size(), static_cast<std::size_t>(std::max(count, 0)));
  if (kept == 0) return {};
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](TokenId a, TokenId b) {
                      const float la = logits[static_cast<std::size_t>(a)];
                      const float lb = logits[static_cast<std::size_t>(b)];
                      return la != lb ? la > lb : a < b;
                    });
  const double log_sum = LogSumExp(logits);
  std::vector<TokenLogprob> top;
  top.reserve(kept);
  for (std::size_t i = 0; i < kept; ++i) top.push_back(At(logits, order[i], log_sum));
  return top;
}

}  // namespace swiftkv
