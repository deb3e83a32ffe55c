// SPDX-License-Identifier: Apache-2.0
// Divides the memory and counts what fits.
#include "tools/plan_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/process_memory.h"
#include "base/saturating.h"
#include "base/status_macros.h"
#include "engine/kv_memory.h"
#include "formats/page_format_table.h"
#include "policy/eviction_policy.h"
#include "tools/bench_formats.h"
#include "tools/model_path.h"
#include "tools/plan_config.h"
#include "tools/plan_gguf.h"

namespace swiftkv {
namespace {

constexpr const char* kPlainFormat = "f16";

Result<PlanModel> LoadModel(const PlanOptions& options) {
  if (!options.config.empty()) return ReadPlanConfig(options.config, options.weights_type);
  if (options.preset.empty()) {
    SKV_ASSIGN_OR_RETURN(const std::string path,
                         ResolveModelPath(options.path, ProcessEnvironment()));
    return ReadPlanGguf(path);
  }
  SKV_ASSIGN_OR_RETURN(const PlanShape* const shape, FindPlanPreset(options.preset));
  WeightType type = {shape->weights_type, shape->weights_bits};
  if (!options.weights_type.empty()) {
    SKV_ASSIGN_OR_RETURN(type, ParseWeightType(options.weights_type));
  }
  PlanModel model = ModelOfShape(*shape, {}, type);
  model.name = shape->name;
  model.kind = "preset";
  return model;
}

// f16 first, then what was asked for.
Result<std::vector<BenchFormat>> Formats(const PlanOptions& options) {
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> asked, ListBenchFormats(options.formats));
  SKV_ASSIGN_OR_RETURN(const PageFormat plain, FindPageFormat(kPlainFormat));
  std::vector<BenchFormat> formats = {{kPlainFormat, plain}};
  for (const BenchFormat& format : asked) {
    if (!(format.format == plain)) formats.push_back(format);
  }
  return formats;
}

Status Divide(const PlanOptions& options, PlanTable* table) {
  const ModelMemory model = {.mapped_weights_bytes = table->model.weights_bytes,
                             .activation_bytes = table->activation_bytes};
  const std::uint64_t taken = model.mapped_weights_bytes + model.activation_bytes;
  table->memory_bytes = options.memory.bytes;
  if (options.memory.automatic) {
    SKV_ASSIGN_OR_RETURN(table->memory_bytes, AvailableBytes());
  }
  table->kv_memory_bytes = SaturatingSubtract(table->memory_bytes, taken);
  if (!options.memory.automatic) return Status::Ok();
  const AutomaticKvMemory automatic = DivideMemory(table->memory_bytes, model);
  table->headroom_bytes = std::min(automatic.headroom_bytes, table->kv_memory_bytes);
  table->kv_memory_bytes = automatic.bytes;
  return Status::Ok();
}

// Keys in formats with scales are rounded by guides, which lie beside the cache.
std::uint64_t GuideBytes(const PageFormat& format, const std::vector<PlanLayer>& layers) {
  if (!format.key->info().has_scales) return 0;
  std::vector<LayerShape> shapes;
  for (const PlanLayer& layer : layers) {
    shapes.push_back({.kv_heads = layer.kv_heads, .head_dim = layer.key_dim});
  }
  return KeyGuideBytes(shapes);
}

// The rate falls with the requests that have no room: they wait.
std::optional<double> Cost(const PlanOptions& options, const PlanRow& row) {
  const std::int64_t running = std::min<std::int64_t>(options.batch, row.max_concurrent_shared);
  const double rate =
      static_cast<double>(options.tokens_per_second) * static_cast<double>(running) / options.batch;
  if (options.price_per_hour <= 0 || rate <= 0) return std::nullopt;
  constexpr double kSecondsPerHour = 3600;
  return options.price_per_hour / (rate * kSecondsPerHour) * 1e6;
}

struct LayerLists {
  std::vector<PlanLayer> stored;
  std::vector<PlanLayer> unshared;
};

Result<PlanRow> MakeRow(const PlanOptions& options, const PlanTable& table,
                        const LayerLists& layers, const BenchFormat& format, double ratio) {
  SKV_ASSIGN_OR_RETURN(const KvPlan plan, KvPlan::Make(layers.stored, format.format));
  const PlannedRequest request = {
      .tokens = table.context, .prefix_tokens = options.prefix, .removed = ratio};
  const PlannedRequest alone = {.tokens = table.context, .removed = ratio};
  PlanRow row;
  row.format = format.name;
  row.ratio = ratio;
  row.policy = kNoPolicy;
  Quality quality = PageFormatQuality(format.format);
  if (ratio > 0) {
    row.policy = options.policy.empty() ? AllPolicies().front()->info().name : options.policy;
    quality = Quality::kAny;
  }
  row.quality = QualityName(quality);
  row.bytes_per_token = plan.TokenBytes(ratio);
  row.growth_bytes = plan.GrowthBytes(ratio);
  row.bytes_per_request = plan.RequestBytes(request);
  row.bookkeeping_bytes = plan.BookkeepingBytes(alone);
  const Result<KvPlan> unshared = KvPlan::Make(layers.unshared, format.format);
  if (unshared.ok()) row.unshared_bytes = unshared->RequestBytes(request);
  row.windowless_bytes = plan.ReservedBytes(table.context);
  row.batch_bytes = plan.BoundFor(request, options.batch);
  row.guide_bytes = GuideBytes(format.format, layers.stored);
  row.needed_bytes = row.batch_bytes;
  for (const std::uint64_t bytes :
       {row.guide_bytes, table.model.weights_bytes, table.activation_bytes, table.headroom_bytes}) {
    row.needed_bytes = SaturatingAdd(row.needed_bytes, bytes);
  }
  const std::uint64_t left = SaturatingSubtract(table.kv_memory_bytes, row.guide_bytes);
  PlannedRequest longest = request;
  longest.tokens = std::max(table.model.context, table.context);
  row.max_context = plan.TokensWithin(longest, options.batch, left);
  row.max_concurrent = plan.RequestsWithin(alone, left);
  row.max_concurrent_shared = plan.RequestsWithin(request, left);
  row.max_concurrent_contiguous = static_cast<std::int64_t>(
      left / std::max<std::uint64_t>(1, plan.ReservedBytes(table.reserve)));
  row.batch_fits = row.max_concurrent_shared >= options.batch;
  row.cost_per_million = Cost(options, row);
  return row;
}

}  // namespace

Result<PlanTable> MakePlanTable(const PlanOptions& options) {
  PlanTable table;
  SKV_ASSIGN_OR_RETURN(table.model, LoadModel(options));
  table.context = options.context > 0 ? options.context : table.model.context;
  if (options.prefix > table.context) {
    return Status::InvalidArgument(
        fmt::format("--prefix accepts up to the {} tokens of a request, "
                    "got {}",
                    table.context, options.prefix));
  }
  table.reserve =
      options.reserve > 0 ? options.reserve : std::max(table.model.context, table.context);
  table.activation_bytes = EstimateActivationBytes(table.model);
  SKV_RETURN_IF_ERROR(Divide(options, &table));
  LayerLists layers;
  for (const ShapedLayer& layer : table.model.layers) {
    layers.stored.push_back(layer.stored);
    layers.unshared.push_back(layer.unshared);
  }
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> formats, Formats(options));
  SKV_ASSIGN_OR_RETURN(const std::vector<double> ratios, ParseRatios(options.ratios));
  for (const double ratio : ratios) {
    if (ratio > 0 && options.policy == kNoPolicy) break;
    for (const BenchFormat& format : formats) {
      SKV_ASSIGN_OR_RETURN(PlanRow row, MakeRow(options, table, layers, format, ratio));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace swiftkv
