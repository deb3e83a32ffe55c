// SPDX-License-Identifier: Apache-2.0
// Words the reasons of a plan.
#include "tools/plan_reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/saturating.h"

namespace swiftkv {
namespace {

constexpr int kShownBatch = 32;  // where nobody asked for one
constexpr std::uint64_t kBytesOfF16 = 2;

std::string Exactly(std::uint64_t bytes) {
  return fmt::format("{} bytes ({})", GroupedDigits(bytes), FormatByteSize(bytes));
}

std::string TokenFactors(const PlannedGroup& group) {
  const PlanLayer& stored = group.layer.stored;
  if (stored.value_dim == 0) {
    return fmt::format("{} layers x {} values of one latent row x 2 bytes", group.layers,
                       stored.key_dim);
  }
  const std::string channels =
      stored.value_dim == stored.key_dim
          ? fmt::format("{} channels x 2 (K and V)", stored.key_dim)
          : fmt::format("({} channels of K + {} of V)", stored.key_dim, stored.value_dim);
  return fmt::format("{} layers x {} KV head{} x {} x 2 bytes", group.layers, stored.kv_heads,
                     stored.kv_heads == 1 ? "" : "s", channels);
}

std::uint64_t TokenBytes(const PlannedGroup& group) {
  const PlanLayer& stored = group.layer.stored;
  return kBytesOfF16 * static_cast<std::uint64_t>(group.layers) *
         static_cast<std::uint64_t>(stored.kv_heads) *
         static_cast<std::uint64_t>(stored.key_dim + stored.value_dim);
}

std::string TokenReason(const PlanTable& table) {
  std::string text;
  for (const PlannedGroup& group : GroupPlannedLayers(table.model)) {
    const int window = group.layer.stored.window;
    text += fmt::format("  a token in f16: {} = {} bytes{}\n", TokenFactors(group),
                        GroupedDigits(TokenBytes(group)),
                        window > 0 ? fmt::format(", within a window of {} tokens", window) : "");
  }
  return text;
}

// What is stored beside what every query head's own K and V would take.
std::string SharingReason(const PlanTable& table, const PlanOptions& options) {
  const PlanRow& plain = table.rows.front();
  const ShapedLayer& layer = table.model.layers.front();
  if (!plain.unshared_bytes || *plain.unshared_bytes == plain.bytes_per_request) return "";
  const bool latent = layer.stored.value_dim == 0;
  const auto batch = static_cast<std::uint64_t>(options.batch > 1 ? options.batch : kShownBatch);
  const std::string cause =
      latent ? fmt::format("multi-head latent attention: one row of {} values serves all {} heads",
                           layer.stored.key_dim, layer.query_heads)
             : fmt::format("grouped-query attention: {} query heads share {} KV head{}",
                           layer.query_heads, layer.stored.kv_heads,
                           layer.stored.kv_heads == 1 ? "" : "s");
  return fmt::format(
      "  {}:\n"
      "    a request of {} tokens takes {} in f16, {} at batch {};\n"
      "    {}, it would be {}, {} at batch {}\n",
      cause, GroupedDigits(static_cast<std::uint64_t>(table.context)),
      Exactly(plain.bytes_per_request),
      FormatByteSize(SaturatingMultiply(plain.bytes_per_request, batch)), batch,
      latent ? "with K and V for every head" : "without it, one KV head for each query head",
      Exactly(*plain.unshared_bytes),
      FormatByteSize(SaturatingMultiply(*plain.unshared_bytes, batch)), batch);
}

std::string WindowReason(const PlanTable& table) {
  const PlanRow& plain = table.rows.front();
  int windowed = 0;
  int window = 0;
  for (const ShapedLayer& layer : table.model.layers) {
    if (layer.stored.window == 0) continue;
    ++windowed;
    window = std::max(window, layer.stored.window);
  }
  if (windowed == 0) return "";
  return fmt::format(
      "  sliding windows: {} of {} layers keep the newest {} tokens only:\n"
      "    a request takes {} in f16 instead of {}, and a token beyond the window adds {}\n",
      windowed, table.model.layers.size(), GroupedDigits(static_cast<std::uint64_t>(window)),
      FormatByteSize(plain.bytes_per_request), FormatByteSize(plain.windowless_bytes),
      FormatByteSize(plain.growth_bytes));
}

std::string GuardReason(const PlanTable& table) {
  const bool has_guards = std::any_of(table.rows.begin(), table.rows.end(), [](const PlanRow& row) {
    return row.format.find("int4") != std::string::npos || row.format == "k8v4";
  });
  if (!has_guards) return "";
  return "  guard rails: under a 4-bit format the first 16 and the newest 128 tokens and the outer "
         "two\n    layers on either side stay at 8 bits, and are counted so\n";
}

std::string Requests(std::int64_t count) {
  return fmt::format("{} request{}", count, count == 1 ? "" : "s");
}

// Where even weights and activations do not fit.
std::string WeightsVerdict(const PlanTable& table) {
  std::string text =
      fmt::format("  nothing fits: weights and activations take {} and the memory has {}\n",
                  FormatByteSize(table.model.weights_bytes + table.activation_bytes),
                  FormatByteSize(table.memory_bytes));
  if (table.model.weights_are_counted || table.model.weights_type == "q4_k_m") return text;
  const double bits = ParseWeightType("q4_k_m").value().bits;
  const auto smaller =
      static_cast<std::uint64_t>(static_cast<double>(table.model.parameters) * bits / 8) +
      table.activation_bytes;
  return text + fmt::format("  with --weights-type q4_k_m they would take {}{}\n",
                            FormatByteSize(smaller),
                            smaller < table.memory_bytes ? "" : ", which does not fit either");
}

// The least change that makes room: a shorter context, else a smaller format, else more memory.
std::string BatchVerdict(const PlanTable& table, const PlanOptions& options) {
  const PlanRow& plain = table.rows.front();
  std::string text =
      fmt::format("  f16 has no room for {} of {} tokens: they need {}, and {} are left\n",
                  Requests(options.batch), GroupedDigits(static_cast<std::uint64_t>(table.context)),
                  FormatByteSize(plain.batch_bytes), FormatByteSize(table.kv_memory_bytes));
  if (plain.max_concurrent_shared > 0) {
    text += fmt::format("  in f16 fit {} at this length\n", Requests(plain.max_concurrent_shared));
  }
  if (plain.max_context > 0) {
    text += fmt::format("  in f16 each of them can have {} tokens\n",
                        GroupedDigits(static_cast<std::uint64_t>(plain.max_context)));
  }
  const auto fits = std::find_if(table.rows.begin(), table.rows.end(),
                                 [](const PlanRow& row) { return row.batch_fits; });
  if (fits != table.rows.end()) {
    return text + fmt::format("  the first row that fits: {}{}\n", fits->format,
                              fits->ratio > 0 ? fmt::format(", {:g} % forgotten by {}",
                                                            fits->ratio * 100, fits->policy)
                                              : "");
  }
  const auto least = std::min_element(
      table.rows.begin(), table.rows.end(),
      [](const PlanRow& a, const PlanRow& b) { return a.needed_bytes < b.needed_bytes; });
  return text + fmt::format("  no row fits; the smallest, {}{}, wants a memory of {}\n",
                            least->format, least->ratio > 0 ? " with forgetting" : "",
                            FormatByteSize(least->needed_bytes));
}

}  // namespace

std::vector<PlannedGroup> GroupPlannedLayers(const PlanModel& model) {
  std::vector<PlannedGroup> groups;
  for (const ShapedLayer& layer : model.layers) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const PlannedGroup& known) { return known.layer == layer; });
    if (group == groups.end()) group = groups.insert(group, {layer, 0});
    ++group->layers;
  }
  return groups;
}

std::string GroupedDigits(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string PlanDrivers(const PlanTable& table, const PlanOptions& options) {
  return "what drives it\n" + TokenReason(table) + SharingReason(table, options) +
         WindowReason(table) + GuardReason(table);
}

std::string PlanVerdict(const PlanTable& table, const PlanOptions& options) {
  const PlanRow& plain = table.rows.front();
  std::string text = "what fits\n";
  if (table.kv_memory_bytes == 0) return text + WeightsVerdict(table);
  if (!plain.batch_fits) return text + BatchVerdict(table, options);
  return text + fmt::format("  {} of {} tokens in f16, with {} to spare\n", Requests(options.batch),
                            GroupedDigits(static_cast<std::uint64_t>(table.context)),
                            FormatByteSize(table.kv_memory_bytes - plain.batch_bytes));
}

}  // namespace swiftkv
