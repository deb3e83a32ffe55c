// SPDX-License-Identifier: Apache-2.0
// Loads a model with the weights that suit measuring, and measures.
#include "tools/quality_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/status_macros.h"
#include "engine/kv_memory.h"
#include "model/architecture.h"
#include "model/f16_weights.h"
#include "model/fingerprint.h"
#include "model/gguf_file.h"
#include "model/thread_count.h"
#include "model/vocabulary.h"
#include "swiftkv/attention.h"
#include "tools/key_guide_store.h"

namespace swiftkv {
namespace {

// The weights to load, and the temporary file that they may lie in.
struct ChosenWeights {
  std::string path;
  MeasuredWeights mode = MeasuredWeights::kF16;
  std::string reason;  // why not F16
  std::unique_ptr<F16Weights> rewritten;
};

// Says why F16 weights do not fit; empty where they do. Twice the file in memory: pages of the file
// (which may lie in memory themselves) and the copy in a layout for this CPU.
Result<std::string> WhyF16DoesNotFit(const GgufFile& file, const std::string& folder) {
  const std::uint64_t needed = F16FileBytes(file);
  SKV_ASSIGN_OR_RETURN(const std::uint64_t memory, AvailableBytes());
  if (memory < 2 * needed) {
    return fmt::format("F16 weights need {} of memory, and {} are left", FormatByteSize(2 * needed),
                       FormatByteSize(memory));
  }
  const Result<std::uint64_t> room = FreeBytesIn(folder);
  if (!room.ok()) return room.status().message();
  if (*room < needed) {
    return fmt::format("F16 weights need {} in {}, which has room for {}", FormatByteSize(needed),
                       folder, FormatByteSize(*room));
  }
  return std::string();
}

Result<ChosenWeights> ChooseWeights(const MeasurementTask& task, const GgufFile& file) {
  ChosenWeights chosen;
  chosen.path = task.model.path;
  if (HasUnroundedWeights(file)) return chosen;
  if (task.weights == MeasuredWeights::kAsIs) {
    chosen.mode = MeasuredWeights::kAsIs;
    return chosen;
  }
  if (!task.weights) {
    SKV_ASSIGN_OR_RETURN(chosen.reason, WhyF16DoesNotFit(file, task.temporary_folder));
    if (!chosen.reason.empty()) {
      chosen.mode = MeasuredWeights::kAsIs;
      return chosen;
    }
  }
  const int threads = task.model.threads > 0 ? task.model.threads : AvailableCores();
  Result<std::unique_ptr<F16Weights>> rewritten =
      F16Weights::Write(file, task.temporary_folder, threads);
  if (rewritten.ok()) {
    chosen.rewritten = std::move(*rewritten);
    chosen.path = chosen.rewritten->path();
    return chosen;
  }
  if (task.weights) return rewritten.status();
  chosen.mode = MeasuredWeights::kAsIs;
  chosen.reason = rewritten.status().message();
  return chosen;
}

bool ServesDecoder(const AttentionBackend& backend, const DecoderSpec& spec,
                   const PageFormat& format) {
  return std::all_of(spec.layers.begin(), spec.layers.end(), [&](const DecoderLayerSpec& layer) {
    AttentionShape shape;
    shape.num_heads = layer.num_heads;
    shape.num_kv_heads = layer.kv_heads;
    shape.head_dim = spec.head_dim;
    shape.scale = spec.attention_scale;
    shape.softcap = spec.attention_softcap;
    shape.window = layer.window;
    return format.key->ServesHeadDim(spec.head_dim) && format.value->ServesHeadDim(spec.head_dim) &&
           backend.Serves(shape, format).ok();
  });
}

}  // namespace

Result<std::vector<PageFormat>> ServedFormats(const ModelOptions& model,
                                              const std::vector<PageFormat>& formats) {
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(model.path));
  SKV_ASSIGN_OR_RETURN(const std::string name, file->RequireString("general.architecture"));
  SKV_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(name));
  SKV_ASSIGN_OR_RETURN(const DecoderSpec spec, architecture->Describe(*file, DecodeLimits{}));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<AttentionBackend> backend,
                       MakeAttentionBackend(model));
  std::vector<PageFormat> served;
  for (const PageFormat& format : formats) {
    if (ServesDecoder(*backend, spec, format)) served.push_back(format);
  }
  return served;
}

double NoiseFloorOf(const QualityReport& report) {
  for (const FormatQuality& row : report.rows) {
    if (row.format == "f16") return row.loss.mean_kld;
  }
  return 0;
}

Calibration CalibrationOf(const Measurement& measurement, const std::string& text_sha256) {
  Calibration calibration;
  calibration.text_sha256 = text_sha256;
  calibration.context = measurement.report.context;
  calibration.chunk = measurement.report.chunk;
  calibration.weights = measurement.weights;
  calibration.noise_floor = NoiseFloorOf(measurement.report);
  calibration.rows = measurement.report.rows;
  return calibration;
}

Result<MeasuredModel> LoadMeasuredModel(const MeasurementTask& task,
                                        const StageCallback& progress) {
  const auto at = [&progress](const char* stage) {
    return [&progress, stage](double done) { return !progress || progress(stage, done); };
  };
  MeasuredModel measured;
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(task.model.path));
  SKV_ASSIGN_OR_RETURN(measured.fingerprint, ModelFingerprint(*file));
  SKV_ASSIGN_OR_RETURN(measured.vocabulary, Vocabulary::Load(task.model.path));
  if (!at("F16 weights")(0)) return Status::Cancelled("measuring was stopped");
  SKV_ASSIGN_OR_RETURN(const ChosenWeights weights, ChooseWeights(task, *file));
  measured.weights = weights.mode;
  measured.weights_reason = weights.reason;
  ModelOptions options = task.model;
  options.path = weights.path;
  // Activations in fewer bits have a noise of their own, which would hide what a format loses.
  if (options.linear == kMeasuredLinear) options.linear = "ggml";
  // The model's mapping keeps the bytes of a temporary file.
  SKV_ASSIGN_OR_RETURN(measured.model, LanguageModel::Load(options, at("loading")));
  return measured;
}

Result<Measurement> MeasureQuality(const MeasurementTask& task, const StageCallback& progress,
                                   const std::atomic<bool>* cancel) {
  SKV_ASSIGN_OR_RETURN(const MeasuredModel measured, LoadMeasuredModel(task, progress));
  Measurement measurement;
  measurement.fingerprint = measured.fingerprint;
  measurement.weights = measured.weights;
  measurement.weights_reason = measured.weights_reason;
  LanguageModel* const model = measured.model.get();
  const Vocabulary& vocabulary = *measured.vocabulary;
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, vocabulary.EncodeText(task.text));
  QualityTask quality;
  quality.tokens = tokens;
  quality.bos = vocabulary.adds_bos() ? vocabulary.bos() : kNoToken;
  quality.context = task.model.context > 0 ? task.model.context : kCalibrationContext;
  quality.chunk = task.model.max_batch_rows;
  quality.formats = task.formats;
  SKV_ASSIGN_OR_RETURN(quality.kv_bytes, ResolveKvBytes(task.memory, model->memory()));
  SKV_ASSIGN_OR_RETURN(quality.key_guides,
                       GuidesFromCalibrationText(model, vocabulary, quality.kv_bytes, cancel));
  const auto at_measuring = [&progress](double done) {
    return !progress || progress("measuring", done);
  };
  SKV_ASSIGN_OR_RETURN(measurement.report, EvaluateQuality(model, quality, at_measuring, cancel));
  return measurement;
}

}  // namespace swiftkv
