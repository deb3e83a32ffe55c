// SPDX-License-Identifier: Apache-2.0
// Compares the tokens of two prompts.
#include "engine/shared_prefill.h"

#include <algorithm>

#include "swiftkv/page_view.h"

namespace swiftkv {

std::int64_t FollowUntil(const PrefillView& mine, const PrefillView& leader) {
  // The last token is always computed, for its logits.
  const auto most = std::min(static_cast<std::int64_t>(mine.tokens.size()) - 1,
                             static_cast<std::int64_t>(leader.tokens.size()));
  const std::int64_t least = (mine.computed / kPageTokens + 1) * kPageTokens;
  if (leader.computed < mine.computed || leader.computed >= most || least > most) return 0;
  // Most prompts differ in the very block that is next.
  const auto next = static_cast<std::size_t>(least - kPageTokens);
  const auto equal_block = [next](std::span<const std::int32_t> a,
                                  std::span<const std::int32_t> b) {
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(next),
                      a.begin() + static_cast<std::ptrdiff_t>(next) + kPageTokens,
                      b.begin() + static_cast<std::ptrdiff_t>(next));
  };
  if (!equal_block(mine.tokens, leader.tokens)) return 0;
  const auto differ =
      std::mismatch(mine.tokens.begin(), mine.tokens.begin() + most, leader.tokens.begin());
  const std::int64_t common = differ.first - mine.tokens.begin();
  const std::int64_t until = common / kPageTokens * kPageTokens;
  return until >= least && until > leader.computed ? until : 0;
}

}  // namespace swiftkv
