// SPDX-License-Identifier: Apache-2.0
// Names finish reasons and derives rates from times.
#include "engine/generation.h"

namespace swiftkv {
namespace {

double Rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

double GenerationResult::PrefillRate() const {
  return Rate(prompt_tokens - cached_tokens, times.prefill);
}

double GenerationResult::DecodeRate() const { return Rate(decode_steps, times.decode); }

}  // namespace swiftkv
