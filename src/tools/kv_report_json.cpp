// SPDX-License-Identifier: Apache-2.0
// Lists the figures key by key.
#include "tools/kv_report_json.h"

#include <cmath>

namespace swiftkv {

nlohmann::ordered_json KvReportJson(const KvReport& kv) {
  return {
      {"format", kv.format},
      {"automatic", kv.is_automatic},
      {"mean_kld", kv.mean_kld ? nlohmann::ordered_json(*kv.mean_kld) : nlohmann::ordered_json()},
      {"policy", kv.policy},
      {"ratio", kv.ratio ? nlohmann::ordered_json(*kv.ratio) : nlohmann::ordered_json()},
      {"budget", kv.budget.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(kv.budget)},
      {"kept_as", kv.kept_as},
      {"query_statistics", kv.query_statistics.empty()
                               ? nlohmann::ordered_json()
                               : nlohmann::ordered_json(kv.query_statistics)},
      {"quality", kv.quality},
      {"bytes_per_token", kv.bytes_per_token},
      {"bits_per_value", std::round(kv.bits_per_value * 1000) / 1000},
      {"logical_tokens", kv.logical_tokens},
      {"kept_tokens", kv.kept_tokens},
      {"bytes_used", kv.bytes_used},
      {"bytes_allocated", kv.bytes_allocated},
      {"peak_bytes", kv.peak_bytes},
      {"waste_fraction", kv.waste_fraction},
      {"huge_page_bytes", kv.huge_page_bytes},
      {"exact_bytes", kv.exact_bytes},
      {"contiguous_bytes", kv.contiguous_bytes},
      {"contiguous_tokens", kv.contiguous_tokens}};
}

nlohmann::ordered_json MemoryReportJson(const KvReport& kv) {
  const KvBalance& balance = kv.balance;
  return {{"live_private_bytes", balance.live_private_bytes},
          {"live_shared_bytes", balance.live_shared_bytes},
          {"cached_bytes", balance.cached_bytes},
          {"free_bytes", balance.free_bytes},
          {"metadata_bytes", balance.metadata_bytes},
          {"mapped_bytes", balance.mapped_bytes},
          {"peak_bytes", balance.peak_bytes},
          {"limit_bytes", balance.limit_bytes},
          {"live_tokens", balance.live_tokens},
          {"pages_resident_bytes", kv.pages_resident_bytes},
          {"process_resident_before_bytes", kv.process_resident_before_bytes},
          {"process_resident_after_bytes", kv.process_resident_after_bytes},
          {"mapped_weights_bytes", kv.model.mapped_weights_bytes},
          {"repacked_weights_bytes", kv.model.repacked_weights_bytes},
          {"packed_weights_bytes", kv.model.packed_weights_bytes},
          {"activation_bytes", kv.model.activation_bytes},
          {"touched_activation_bytes", kv.model.touched_activation_bytes},
          {"key_guide_bytes", kv.key_guide_bytes}};
}

nlohmann::ordered_json PrefixDiffersAtJson(std::int64_t position) {
  return position < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(position);
}

}  // namespace swiftkv
