// SPDX-License-Identifier: Apache-2.0
// Reads metadata, tensor table and vocabulary of a GGUF file.
#include "tools/model_summary.h"

#include <algorithm>
#include <map>

#include "base/status_macros.h"
#include "engine/kv_memory.h"
#include "formats/codec_table.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/vocabulary.h"
#include "model/weight_check.h"

namespace swiftkv {
namespace {

std::vector<TensorTypeSummary> SummarizeTypes(const GgufFile& file) {
  std::map<int, TensorTypeSummary> by_type;
  for (const GgufTensor& tensor : file.tensors()) {
    TensorTypeSummary& summary = by_type[tensor.type];
    summary.type = TensorTypeName(tensor.type);
    ++summary.count;
    summary.bytes += tensor.bytes;
  }
  std::vector<TensorTypeSummary> types;
  for (auto& [type, summary] : by_type) types.push_back(std::move(summary));
  std::stable_sort(types.begin(), types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return types;
}

std::uint64_t CountParameters(const GgufFile& file) {
  std::uint64_t count = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::uint64_t>(extent);
    count += elements;
  }
  return count;
}

std::vector<LayerGroupSummary> SummarizeGroups(const DecoderSpec& spec) {
  std::vector<LayerGroupSummary> groups;
  for (const DecoderLayerSpec& layer : spec.layers) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const LayerGroupSummary& group) {
      return group.window == layer.window && group.query_heads == layer.num_heads &&
             group.kv_heads == layer.kv_heads;
    });
    if (found == groups.end()) {
      groups.push_back({.layers = 0,
                        .window = layer.window,
                        .query_heads = layer.num_heads,
                        .kv_heads = layer.kv_heads});
      found = groups.end() - 1;
    }
    ++found->layers;
  }
  return groups;
}

std::vector<FormatSummary> SummarizeFormats(const DecoderSpec& spec) {
  std::vector<LayerShape> shapes;
  for (const DecoderLayerSpec& layer : spec.layers) {
    shapes.push_back(
        {.kv_heads = layer.kv_heads, .head_dim = spec.head_dim, .window = layer.window});
  }
  std::vector<FormatSummary> formats;
  for (const PageCodec* codec : AllCodecs()) {
    const FormatInfo& info = codec->info();
    const Result<KvFootprint> footprint = KvFootprint::Make(shapes, info.name, info.name);
    if (!footprint.ok()) continue;
    formats.push_back({.name = info.name,
                       .quality = QualityName(info.quality),
                       .bits_per_value = info.bits_per_value,
                       .bytes_per_token = footprint->TokenBytes(),
                       .bytes_at_context = footprint->FilledBytes(spec.context_length)});
  }
  return formats;
}

Status Summarize(const GgufFile& file, ModelSummary* summary) {
  SKV_ASSIGN_OR_RETURN(summary->architecture, file.RequireString("general.architecture"));
  Result<const Architecture*> family = FindArchitecture(summary->architecture);
  if (!family.ok()) return file.Unsupported(family.status().message());
  summary->family = (*family)->description();
  SKV_ASSIGN_OR_RETURN(summary->spec, (*family)->Describe(file, DecodeLimits{}));
  summary->groups = SummarizeGroups(*summary->spec);
  summary->formats = SummarizeFormats(*summary->spec);
  DecoderWeights unused;  // only the list of slots is wanted
  SKV_RETURN_IF_ERROR(CheckWeights(file, ListWeights(*summary->spec, &unused)));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<Vocabulary> vocabulary, Vocabulary::Load(file.path()));
  summary->vocabulary_size = vocabulary->size();
  summary->has_chat_template = !vocabulary->chat_template_source().empty();
  return Status::Ok();
}

}  // namespace

ModelSummary SummarizeModel(const GgufFile& file) {
  ModelSummary summary;
  summary.path = file.path();
  summary.file_bytes = file.file_bytes();
  summary.files = file.num_shards();
  summary.parameters = CountParameters(file);
  summary.tensor_types = SummarizeTypes(file);
  summary.runs = Summarize(file, &summary);
  return summary;
}

}  // namespace swiftkv
