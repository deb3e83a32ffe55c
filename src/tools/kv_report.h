// SPDX-License-Identifier: Apache-2.0
// Gathers what a sequence's cache costs, for footer and JSON. docs/json.md defines every figure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"
#include "tools/model_stack.h"

namespace swiftkv {

struct KvReport {
  std::string format;
  std::string policy;              // "none": nothing is forgotten but what a sliding window drops
  std::optional<double> ratio;     // that was asked for
  std::string budget;              // likewise, of what is kept; empty for none
  std::string kept_as;             // how what is kept is stored
  std::string query_statistics;    // that the policy looked at: own or model; empty: none
  bool is_automatic = false;       // calibration chose the format
  std::optional<double> mean_kld;  // of the format on this model, where calibration knows it
  std::string quality;             // grade of what the sequence holds
  std::uint64_t bytes_per_token = 0;
  double bits_per_value = 0;  // of what the sequence holds, scales and guard rails included
  std::int64_t logical_tokens = 0;
  std::int64_t kept_tokens = 0;
  std::uint64_t bytes_used = 0;  // of filled slots
  std::uint64_t bytes_allocated = 0;
  std::uint64_t peak_bytes = 0;
  double waste_fraction = 0;          // 1 - used / allocated; 0 where nothing is allocated
  std::uint64_t huge_page_bytes = 0;  // of the pages, in huge pages: smaps' AnonHugePages
  std::uint64_t exact_bytes = 0;
  std::uint64_t contiguous_bytes = 0;
  std::int64_t contiguous_tokens = 0;

  KvBalance balance;
  std::uint64_t pages_resident_bytes = 0;  // smaps' Rss of the ranges that hold the pages
  ModelMemory model;
  std::uint64_t key_guide_bytes = 0;
  std::uint64_t process_resident_before_bytes = 0;
  std::uint64_t process_resident_after_bytes = 0;
};

// Returns where the arenas begin in which the session's sequence has pages.
std::vector<const std::byte*> FrameBases(const GenerationSession& session);

// Errors: those of asking the kernel what the process uses.
Result<KvReport> MakeKvReport(const ModelStack& stack);

}  // namespace swiftkv
