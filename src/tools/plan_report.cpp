// SPDX-License-Identifier: Apache-2.0
// Formats a plan.
#include "tools/plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/options_json.h"
#include "tools/plan_reasons.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

Json RowJson(const PlanRow& row) {
  return {
      {"format", row.format},
      {"policy", row.policy},
      {"ratio", row.ratio},
      {"quality", row.quality},
      {"bytes_per_token", row.bytes_per_token},
      {"bytes_per_token_beyond_windows", row.growth_bytes},
      {"bytes_per_request", row.bytes_per_request},
      {"bookkeeping_bytes", row.bookkeeping_bytes},
      {"bytes_per_request_without_gqa", row.unshared_bytes ? Json(*row.unshared_bytes) : Json()},
      {"bytes_per_request_without_windows", row.windowless_bytes},
      {"bytes_of_batch", row.batch_bytes},
      {"key_guide_bytes", row.guide_bytes},
      {"memory_needed_bytes", row.needed_bytes},
      {"max_context", row.max_context},
      {"max_concurrent", row.max_concurrent},
      {"max_concurrent_contiguous", row.max_concurrent_contiguous},
      {"max_concurrent_shared", row.max_concurrent_shared},
      {"fits", row.batch_fits},
      {"cost_per_million", row.cost_per_million ? Json(*row.cost_per_million) : Json()}};
}

Json GroupsJson(const PlanModel& model) {
  Json groups = Json::array();
  for (const PlannedGroup& group : GroupPlannedLayers(model)) {
    const PlanLayer& stored = group.layer.stored;
    groups.push_back({{"layers", group.layers},
                      {"window", stored.window},
                      {"query_heads", group.layer.query_heads},
                      {"kv_heads", stored.kv_heads},
                      {"key_dim", stored.key_dim},
                      {"value_dim", stored.value_dim}});
  }
  return groups;
}

std::string Line(const char* name, const std::string& value) {
  return fmt::format("{:<13}{}\n", name, value);
}

std::string Tokens(int count) {
  return fmt::format("{} token{}", GroupedDigits(static_cast<std::uint64_t>(count)),
                     count == 1 ? "" : "s");
}

std::string LayersText(const PlannedGroup& group) {
  const PlanLayer& stored = group.layer.stored;
  const std::string span = stored.window > 0
                               ? fmt::format("with a window of {} tokens", stored.window)
                               : "over all tokens";
  if (stored.value_dim == 0) {
    return fmt::format("{} {}; {} heads, one latent row of {} values", group.layers, span,
                       group.layer.query_heads, stored.key_dim);
  }
  return fmt::format("{} {}; {} query heads, {} KV head{} of {}", group.layers, span,
                     group.layer.query_heads, stored.kv_heads, stored.kv_heads == 1 ? "" : "s",
                     stored.key_dim);
}

std::string WeightsText(const PlanModel& model) {
  const double billions = static_cast<double>(model.parameters) / 1e9;
  return fmt::format(
      "{}, {:.{}f} billion {} {}", FormatByteSize(model.weights_bytes), billions,
      billions < 10 ? 2 : 1,
      model.weights_are_counted ? "weights as the file has them, most in" : "weights assumed in",
      model.weights_type);
}

std::string Heading(const PlanTable& table, const PlanOptions& options) {
  const PlanModel& model = table.model;
  std::string text = Line("model", fmt::format("{} ({})", PrintableLine(model.name), model.kind));
  if (!model.note.empty()) text += Line("", model.note);
  const char* name = "layers";
  for (const PlannedGroup& group : GroupPlannedLayers(model)) {
    text += Line(name, LayersText(group));
    name = "";
  }
  text += Line("context", fmt::format("{} at most{}", Tokens(model.context),
                                      table.context > model.context ? ", less than planned" : ""));
  text += Line("weights", WeightsText(model));
  text += Line("activations", FormatByteSize(table.activation_bytes) + ", estimated");
  std::string memory = FormatByteSize(table.memory_bytes);
  memory += options.memory.automatic ? " available" : " given";
  if (table.headroom_bytes > 0) memory += ", " + FormatByteSize(table.headroom_bytes) + " headroom";
  text += Line("memory", memory);
  text += Line("", FormatByteSize(table.kv_memory_bytes) + " left for the cache");
  std::string request = fmt::format("{}, {} at once", Tokens(table.context), options.batch);
  if (options.prefix > 0) request += "; all share the first " + Tokens(options.prefix);
  return text + Line("request", request);
}

std::string RowText(const PlanRow& row, bool with_cost) {
  std::string text = fmt::format(
      "{:<10}{:>8}{:>12}{:>12}{:>12}{:>12}{:>9}{:>12}{:>9}", row.format,
      row.ratio > 0 ? fmt::format("{:g} %", row.ratio * 100) : "-",
      FormatByteSize(row.bytes_per_token), FormatByteSize(row.bytes_per_request),
      FormatByteSize(row.batch_bytes), GroupedDigits(static_cast<std::uint64_t>(row.max_context)),
      row.max_concurrent, row.max_concurrent_contiguous, row.max_concurrent_shared);
  if (with_cost) {
    text += fmt::format("{:>11}",
                        row.cost_per_million ? fmt::format("{:.4g}", *row.cost_per_million) : "-");
  }
  return text + (row.batch_fits ? "\n" : "  does not fit\n");
}

std::string RowsText(const PlanTable& table, const PlanOptions& options) {
  const bool with_cost = options.price_per_hour > 0 && options.tokens_per_second > 0;
  std::string text = fmt::format(
      "\n{:<10}{:>8}{:>12}{:>12}{:>12}{:>12}{:>9}{:>12}{:>9}{}\n"
      "{:<10}{:>8}{:>12}{:>12}{:>12}{:>12}{:>9}{:>12}{:>9}{}\n",
      "KV cache", "", "", "", "batch", "longest", "requests", "at once,", "prefix",
      with_cost ? "     cost of" : "", "format", "forgets", "a token", "a request",
      fmt::format("of {}", options.batch), "context", "paged", "contiguous", "shared",
      with_cost ? "  a million" : "");
  for (const PlanRow& row : table.rows) text += RowText(row, with_cost);
  text += fmt::format("contiguous: {} reserved for each request\n", Tokens(table.reserve));
  if (table.rows.back().ratio > 0) {
    text += fmt::format("forgets: what {} would drop; `run` does not forget yet\n",
                        table.rows.back().policy);
  }
  return text + "\n";
}

}  // namespace

std::string PlanJson(const PlanTable& table, const PlanOptions& options) {
  const PlanModel& model = table.model;
  Json object = {{"model", model.name},
                 {"source", model.kind},
                 {"architecture", model.architecture},
                 {"note", model.note},
                 {"model_context", model.context},
                 {"layer_groups", GroupsJson(model)},
                 {"parameters", model.parameters},
                 {"weights_type", model.weights_type},
                 {"weights_bytes", model.weights_bytes},
                 {"activation_bytes", table.activation_bytes},
                 {"memory_bytes", table.memory_bytes},
                 {"headroom_bytes", table.headroom_bytes},
                 {"kv_memory_bytes", table.kv_memory_bytes},
                 {"context", table.context},
                 {"batch", options.batch},
                 {"prefix_tokens", options.prefix},
                 {"contiguous_tokens", table.reserve},
                 {"rows", Json::array()}};
  for (const PlanRow& row : table.rows) object["rows"].push_back(RowJson(row));
  return JsonLine(object);
}

std::string PlanText(const PlanTable& table, const PlanOptions& options) {
  return Heading(table, options) + RowsText(table, options) + PlanDrivers(table, options) +
         PlanVerdict(table, options);
}

}  // namespace swiftkv
