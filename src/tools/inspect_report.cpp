// SPDX-License-Identifier: Apache-2.0
// Formats the summary of a model.
#include "tools/inspect_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/options_json.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kValueWidth = 100;  // characters of a metadata value

std::string Count(std::uint64_t count) {
  if (count >= 1000000000) return fmt::format("{:.2f} billion", static_cast<double>(count) / 1e9);
  if (count >= 1000000) return fmt::format("{:.1f} million", static_cast<double>(count) / 1e6);
  return fmt::format("{}", count);
}

std::string Counted(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string Row(const char* name, const std::string& value) {
  return fmt::format("{:<14}{}\n", name, value);
}

std::string GroupText(const LayerGroupSummary& group) {
  const std::string span = group.window > 0
                               ? fmt::format("with a window of {} tokens", group.window)
                               : "over all tokens";
  return fmt::format("{} {}; {}, {}", Counted(group.layers, "layer"), span,
                     Counted(group.query_heads, "query head"), Counted(group.kv_heads, "KV head"));
}

std::string DecoderText(const ModelSummary& summary) {
  if (!summary.spec) return "";
  std::string text = Row("context", fmt::format("{} tokens", summary.spec->context_length));
  text += Row("head size", fmt::format("{}", summary.spec->head_dim));
  const char* name = "layers";
  for (const LayerGroupSummary& group : summary.groups) {
    text += Row(name, GroupText(group));
    name = "";
  }
  if (summary.vocabulary_size > 0) {
    text += Row("vocabulary", fmt::format("{} tokens; chat template: {}", summary.vocabulary_size,
                                          summary.has_chat_template ? "yes" : "no"));
  }
  text += fmt::format("\n{:<14}{:>8}{:>16}{:>22}\n", "KV cache", "grade", "a token",
                      fmt::format("{} tokens", summary.spec->context_length));
  for (const FormatSummary& format : summary.formats) {
    text += fmt::format("  {:<12}{:>8}{:>16}{:>22}\n", format.name, format.quality,
                        FormatByteSize(format.bytes_per_token),
                        FormatByteSize(format.bytes_at_context));
  }
  return text;
}

std::string TensorText(const GgufFile& file) {
  std::string text = "\ntensors\n";
  for (const GgufTensor& tensor : file.tensors()) {
    text += fmt::format("  {:<36} {:<6} {:>18} {:>12}\n", PrintableExcerpt(tensor.name, 60),
                        TensorTypeName(tensor.type), ShapeText(tensor.shape),
                        FormatByteSize(tensor.bytes));
  }
  return text;
}

Json DecoderJson(const ModelSummary& summary) {
  if (!summary.spec) return Json();
  const DecoderSpec& spec = *summary.spec;
  Json groups = Json::array();
  for (const LayerGroupSummary& group : summary.groups) {
    groups.push_back({{"layers", group.layers},
                      {"window", group.window},
                      {"query_heads", group.query_heads},
                      {"kv_heads", group.kv_heads}});
  }
  return {{"context_length", spec.context_length}, {"layers", spec.layers.size()},
          {"hidden_dim", spec.hidden_dim},         {"head_dim", spec.head_dim},
          {"vocab_size", spec.vocab_size},         {"layer_groups", groups}};
}

Json FormatsJson(const ModelSummary& summary) {
  Json formats = Json::array();
  for (const FormatSummary& format : summary.formats) {
    formats.push_back({{"format", format.name},
                       {"quality", format.quality},
                       {"bits_per_value", format.bits_per_value},
                       {"bytes_per_token", format.bytes_per_token},
                       {"bytes_at_context", format.bytes_at_context}});
  }
  return formats;
}

Json TensorsJson(const GgufFile& file) {
  Json tensors = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", TensorTypeName(tensor.type)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  return tensors;
}

}  // namespace

std::string InspectText(const ModelSummary& summary, const GgufFile& file, bool with_tensors) {
  std::string text = Row("model", PrintableLine(summary.path));
  text += Row("runs", summary.runs.ok() ? "yes" : "no: " + PrintableLine(summary.runs.message()));
  std::string architecture = PrintableExcerpt(summary.architecture, 60);
  if (!summary.family.empty()) architecture += " (" + summary.family + ")";
  text += Row("architecture", architecture);
  text += Row("parameters",
              fmt::format("{} in {} tensors", Count(summary.parameters), file.tensors().size()));
  text += Row("size", fmt::format("{} in {}", FormatByteSize(summary.file_bytes),
                                  Counted(summary.files, "file")));
  text += DecoderText(summary);
  text += fmt::format("\n{:<14}{:>8}{:>16}\n", "weights", "tensors", "bytes");
  for (const TensorTypeSummary& type : summary.tensor_types) {
    text += fmt::format("  {:<12}{:>8}{:>16}\n", type.type, type.count, FormatByteSize(type.bytes));
  }
  text += "\nmetadata\n";
  for (const std::string& key : file.Keys()) {
    text += fmt::format("  {:<44} {}\n", PrintableExcerpt(key, 80),
                        PrintableExcerpt(file.ValueText(key), kValueWidth));
  }
  return with_tensors ? text + TensorText(file) : text;
}

std::string InspectJson(const ModelSummary& summary, const GgufFile& file, bool with_tensors) {
  Json types = Json::array();
  for (const TensorTypeSummary& type : summary.tensor_types) {
    types.push_back({{"type", type.type}, {"count", type.count}, {"bytes", type.bytes}});
  }
  Json metadata = Json::object();
  for (const std::string& key : file.Keys()) metadata[key] = file.ValueText(key);
  Json object = {{"model", summary.path},
                 {"runs", summary.runs.ok()},
                 {"reason", summary.runs.message()},
                 {"architecture", summary.architecture},
                 {"file_bytes", summary.file_bytes},
                 {"files", summary.files},
                 {"parameters", summary.parameters},
                 {"vocabulary_size", summary.vocabulary_size},
                 {"chat_template", summary.has_chat_template},
                 {"decoder", DecoderJson(summary)},
                 {"kv", FormatsJson(summary)},
                 {"tensor_types", types},
                 {"metadata", metadata}};
  if (with_tensors) object["tensors"] = TensorsJson(file);
  return JsonLine(object);
}

}  // namespace swiftkv
