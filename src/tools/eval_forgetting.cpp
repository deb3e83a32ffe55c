// SPDX-License-Identifier: Apache-2.0
// Walks over documents, measures the cells that are missing, and sums up.
#include "tools/eval_forgetting.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "engine/kv_memory.h"
#include "engine/query_measurement.h"
#include "model/fingerprint.h"
#include "policy/policy_text.h"
#include "tools/eval_cell_store.h"
#include "tools/key_guide_store.h"
#include "tools/query_figures_store.h"

namespace swiftkv {
namespace {

constexpr int kPrefixRows = 512;  // of a step that computes a prefix

std::string DigestOf(const RecallDocument& document) {
  std::string text = document.name;
  const auto add = [&text](const std::vector<TokenId>& tokens) {
    text += '\n';
    for (const TokenId token : tokens) text += fmt::format("{} ", token);
  };
  add(document.prefix);
  for (const Continuation& continuation : document.continuations) {
    add(continuation.tokens);
    text += fmt::format("from {}", continuation.first_scored);
  }
  return TextFingerprint(text);
}

std::vector<std::size_t> ScoredTokensOf(const RecallDocument& document) {
  std::vector<std::size_t> counts;
  for (const Continuation& continuation : document.continuations) {
    counts.push_back(continuation.tokens.size() -
                     static_cast<std::size_t>(continuation.first_scored));
  }
  return counts;
}

bool HasScales(const PageFormat& format) {
  return format.key->info().has_scales || format.value->info().has_scales;
}

class ForgettingRun {
 public:
  ForgettingRun(const ForgettingTask& task, const StageCallback& progress,
                const std::atomic<bool>* cancel)
      : task_(task), progress_(progress), cancel_(cancel), store_(task.folder) {}

  Result<ForgettingReport> Run() {
    SKV_ASSIGN_OR_RETURN(measured_, LoadMeasuredModel(LoadingTask(), progress_));
    report_.fingerprint = measured_.fingerprint;
    report_.weights = measured_.weights;
    report_.weights_reason = measured_.weights_reason;
    report_.chunk = task_.chunk;
    SKV_RETURN_IF_ERROR(Prepare());
    scores_.resize(task_.cells.size());
    report_.documents = static_cast<int>(documents_.size());
    report_.cells = static_cast<int>(documents_.size() * task_.cells.size());
    for (std::size_t i = 0; i < documents_.size(); ++i) SKV_RETURN_IF_ERROR(RunDocument(i));
    Summarize();
    return std::move(report_);
  }

 private:
  MeasurementTask LoadingTask() const {
    MeasurementTask loading = task_.measurement;
    loading.model.max_batch_rows = std::max(kPrefixRows, task_.chunk);
    return loading;
  }

  Status Prepare() {
    const Vocabulary& vocabulary = *measured_.vocabulary;
    LanguageModel* const model = measured_.model.get();
    RecallSettings settings = task_.documents;
    settings.bos = vocabulary.adds_bos() ? vocabulary.bos() : kNoToken;
    if (settings.context == 0) settings.context = kCalibrationContext;
    settings.context = std::min(settings.context, model->context());
    report_.context = settings.context;
    SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> text,
                         vocabulary.EncodeText(task_.measurement.text));
    const Tokenizer tokenizer = [&vocabulary](std::string_view part) {
      const TextPart one[] = {{.text = std::string(part), .trusted = false}};
      return vocabulary.Encode(one, {.add_bos = false, .continues = true, .forbidden = {}});
    };
    SKV_ASSIGN_OR_RETURN(documents_, MakeRecallDocuments(text, settings, tokenizer));
    options_.chunk = std::min(task_.chunk, model->max_batch_rows());
    SKV_ASSIGN_OR_RETURN(options_.kv_bytes,
                         ResolveKvBytes(task_.measurement.memory, model->memory()));
    const bool guided = std::any_of(task_.cells.begin(), task_.cells.end(), [](const auto& cell) {
      return HasScales(cell.cell.format) || cell.kept_as != kKeptAsStored;
    });
    if (guided) {
      SKV_ASSIGN_OR_RETURN(options_.key_guides, GuidesFromCalibrationText(
                                                    model, vocabulary, options_.kv_bytes, cancel_));
    }
    if (task_.use_query_figures) {
      SKV_ASSIGN_OR_RETURN(ModelQueryFigures figures,
                           ProcessQueryFiguresStore().Load(measured_.fingerprint, model->spec()));
      report_.query_figures = figures.fingerprint;
      figures_ = std::make_shared<const ModelQueryFigures>(std::move(figures));
    }
    return Status::Ok();
  }

  std::string KeyOf(const EvalCell& cell, const std::string& document) const {
    const ModelOptions& model = task_.measurement.model;
    std::string key = fmt::format(
        "model {}\nweights {} linear {} attention {} isa {} precise {} repack {}\nchunk {}\n"
        "document {}\nformat {}\npolicy {}\n",
        measured_.fingerprint, MeasuredWeightsName(measured_.weights), model.linear,
        model.attention_backend, model.isa, model.precise, model.use_repacked_weights,
        options_.chunk, document, PageFormatName(cell.cell.format), cell.policy);
    if (cell.cell.rule == nullptr) return key;
    const ForgettingRule& rule = *cell.cell.rule;
    key += fmt::format("budget {}\nkept as {}\nseed {}\n", CanonicalBudget(rule.budget),
                       cell.kept_as, rule.seed);
    if (rule.policy.policy->info().needs.query_statistics) {
      key += fmt::format("statistics {}\n",
                         rule.figures == nullptr ? "own" : rule.figures->fingerprint);
    }
    return key;
  }

  // Each document has a draw of its own, or what random drops of one would decide all; it does not
  // depend on how many there are, or a run with more would measure everything again.
  std::shared_ptr<const ForgettingRule> RuleOf(const EvalCell& cell,
                                               const RecallDocument& document) const {
    if (cell.cell.rule == nullptr) return nullptr;
    auto rule = std::make_shared<ForgettingRule>(*cell.cell.rule);
    rule->seed = task_.documents.seed * 1000 + document.number;
    rule->figures = figures_;
    return rule;
  }

  Status RunDocument(std::size_t number) {
    const RecallDocument& document = documents_[number];
    const std::string digest = DigestOf(document);
    const std::vector<std::size_t> scored_tokens = ScoredTokensOf(document);
    std::vector<std::size_t> missing;  // cells
    std::vector<EvalCell> measured;    // the same
    std::vector<ForgettingCell> cells;
    for (std::size_t i = 0; i < task_.cells.size(); ++i) {
      EvalCell cell = task_.cells[i];
      cell.cell.rule = RuleOf(cell, document);
      std::optional<CellScore> kept = store_.Load(KeyOf(cell, digest), scored_tokens);
      scores_[i].push_back(kept ? std::move(*kept) : CellScore{});
      if (kept) {
        ++report_.kept_cells;
        continue;
      }
      missing.push_back(i);
      cells.push_back(cell.cell);
      measured.push_back(std::move(cell));
    }
    std::size_t done = 0;
    const auto tell = [&] {
      const double finished = static_cast<double>(number * task_.cells.size() + task_.cells.size() -
                                                  cells.size() + done) /
                              static_cast<double>(report_.cells);
      return !progress_ || progress_(document.name.c_str(), finished);
    };
    if (!tell()) return Status::Cancelled("measuring was stopped");
    if (cells.empty()) return Status::Ok();
    const auto sink = [&](std::size_t index, CellScore score) {
      SKV_RETURN_IF_ERROR(store_.Save(KeyOf(measured[index], digest), score));
      scores_[missing[index]].back() = std::move(score);
      ++done;
      return tell() ? Status::Ok() : Status::Cancelled("measuring was stopped");
    };
    return ScoreDocument(measured_.model.get(), document, cells, options_, sink, cancel_);
  }

  void Summarize() {
    const BootstrapSettings settings;
    for (std::size_t i = 0; i < task_.cells.size(); ++i) {
      ForgettingRow& row = report_.rows.emplace_back();
      row.figures = SummarizeCell(documents_, scores_[i], settings);
      row.needles = NeedlesOf(documents_, scores_[i]);
      if (task_.cells[i].policy == kNoPolicy) continue;
      const EvalCell& cell = task_.cells[i];
      EvalCell uniform = cell;
      uniform.split = BudgetSplit::kUniform;
      EvalCell same = cell;
      same.kept_as = kKeptAsStored;
      row.less_random = Compare(i, FindControl(task_.cells, cell, "random"), settings);
      row.less_sink_recent = Compare(i, FindControl(task_.cells, cell, "sink_recent"), settings);
      row.less_uniform = Compare(i, FindCell(task_.cells, uniform), settings);
      row.less_same = Compare(i, FindCell(task_.cells, same), settings);
    }
  }

  std::optional<RecallIntervals> Compare(std::size_t index, std::size_t other,
                                         const BootstrapSettings& settings) const {
    if (other == task_.cells.size() || other == index) return std::nullopt;
    return CompareCells(documents_, scores_[index], scores_[other], settings);
  }

  const ForgettingTask& task_;
  const StageCallback& progress_;
  const std::atomic<bool>* cancel_;
  EvalCellStore store_;
  MeasuredModel measured_;
  std::shared_ptr<const ModelQueryFigures> figures_;  // null: of each prefix
  ForgettingRunOptions options_;
  std::vector<RecallDocument> documents_;
  std::vector<std::vector<CellScore>> scores_;  // [cells][documents]
  ForgettingReport report_;
};

}  // namespace

Result<ForgettingReport> MeasureForgetting(const ForgettingTask& task,
                                           const StageCallback& progress,
                                           const std::atomic<bool>* cancel) {
  return ForgettingRun(task, progress, cancel).Run();
}

Result<std::string> MeasureAndKeepQueryFigures(const MeasurementTask& task,
                                               const StageCallback& progress,
                                               const std::atomic<bool>* cancel) {
  MeasurementTask loading = task;
  loading.model.max_batch_rows = kPrefixRows;
  SKV_ASSIGN_OR_RETURN(const MeasuredModel measured, LoadMeasuredModel(loading, progress));
  LanguageModel* const model = measured.model.get();
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                       measured.vocabulary->EncodeText(task.text));
  QueryMeasurement measurement;
  measurement.tokens = tokens;
  measurement.bos = measured.vocabulary->adds_bos() ? measured.vocabulary->bos() : kNoToken;
  measurement.window = task.model.context > 0 ? task.model.context : kCalibrationContext;
  SKV_ASSIGN_OR_RETURN(measurement.kv_bytes, ResolveKvBytes(task.memory, model->memory()));
  const auto at_measuring = [&progress](double done) {
    return !progress || progress("query statistics", done);
  };
  SKV_ASSIGN_OR_RETURN(ModelQueryFigures figures,
                       MeasureQueryFigures(model, measurement, at_measuring, cancel));
  SKV_ASSIGN_OR_RETURN(
      const ModelQueryFigures kept,
      ProcessQueryFiguresStore().Save(measured.fingerprint, model->spec(), std::move(figures)));
  return kept.fingerprint;
}

}  // namespace swiftkv
