// SPDX-License-Identifier: Apache-2.0
// Implements forced and measured choices of linear backends.
#include "model/linear_choice.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "ggml-backend.h"
#include "model/language_model.h"
#include "model/linear_measurement.h"
#include "model/onednn_linear.h"

namespace swiftkv {
namespace {

LinearShape ShapeOf(const ggml_tensor& weight) { return {weight.type, weight.ne[0], weight.ne[1]}; }

bool IsFloat(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

std::size_t RowsIndex(int rows) {
  std::size_t index = 0;
  while (index + 1 < kNumMeasuredRows && kMeasuredRows[index + 1] <= rows) ++index;
  return index;
}

}  // namespace

bool LiesAsInFile(const ggml_tensor& weight) {
  return weight.buffer != nullptr && ggml_backend_buffer_is_host(weight.buffer);
}

std::string LinearBackendNames() {
  std::string names = kMeasuredLinear;
  for (const LinearBackendRow& row : AllLinearBackends()) names += std::string(", ") + row.name;
  return names;
}

Result<LinearChoice> LinearChoice::Create(std::string_view mode) {
  LinearChoice choice;
  for (const LinearBackendRow& row : AllLinearBackends()) {
    if (mode != kMeasuredLinear && mode != row.name) continue;
    choice.candidates_.push_back({row.name, row.make == nullptr ? nullptr : row.make()});
  }
  if (!choice.candidates_.empty()) return choice;
  return Status::InvalidArgument("linear layers are computed by " + LinearBackendNames() +
                                 ", not " + std::string(mode));
}

bool LinearChoice::WantsAsItLies(const LinearShape& shape) const {
  return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
    if (candidate.backend == nullptr || !candidate.backend->Serves(shape)) return false;
    // Unpacking pays from some rows on only, so that for quantised weights ggml's layouts, made
    // for few rows, come first.
    return !measures() || candidate.backend->ServesFewRows(shape) || IsFloat(shape.type);
  });
}

const LinearBackend* LinearChoice::Find(const ggml_tensor& weight, int rows) const {
  if (candidates_.empty() || !LiesAsInFile(weight)) return nullptr;
  const LinearShape shape = ShapeOf(weight);
  if (candidates_.size() == 1) {
    const LinearBackend* forced = candidates_.front().backend.get();
    return forced != nullptr && forced->Serves(shape) ? forced : nullptr;
  }
  const auto found = chosen_.find(shape);
  if (found == chosen_.end()) return nullptr;
  return candidates_[found->second.by_rows[RowsIndex(rows)]].backend.get();
}

void LinearChoice::Measure(std::span<const ggml_tensor* const> weights, int threads) {
  if (!measures()) return;
  std::map<LinearShape, std::vector<const ggml_tensor*>> alike;
  for (const ggml_tensor* weight : weights) {
    if (LiesAsInFile(*weight)) alike[ShapeOf(*weight)].push_back(weight);
  }
  for (const auto& [shape, matrices] : alike) {
    std::vector<const LinearBackend*> rivals;
    std::vector<std::size_t> indices;  // of the rivals among the candidates
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      const LinearBackend* backend = candidates_[c].backend.get();
      if (backend != nullptr && !backend->Serves(shape)) continue;
      rivals.push_back(backend);
      indices.push_back(c);
    }
    Measured& chosen = chosen_[shape];
    for (std::size_t i = 0; i < kNumMeasuredRows; ++i) {
      const std::vector<double> seconds =
          MeasureProducts(matrices, rivals, kMeasuredRows[i], threads);
      const auto best = std::min_element(seconds.begin(), seconds.end());
      chosen.by_rows[i] = indices[static_cast<std::size_t>(best - seconds.begin())];
      chosen.seconds_per_row = *best / kMeasuredRows[i];
    }
  }
  FreeUnusedOnednnKernels();
}

double LinearChoice::SecondsPerRow(std::span<const ggml_tensor* const> weights) const {
  double seconds = 0;
  for (const ggml_tensor* weight : weights) {
    const auto found = chosen_.find(ShapeOf(*weight));
    if (found == chosen_.end()) return 0;
    seconds += found->second.seconds_per_row;
  }
  return seconds;
}

std::string LinearChoice::Text() const {
  std::ostringstream text;
  for (const auto& [shape, chosen] : chosen_) {
    text << ggml_type_name(shape.type) << ' ' << shape.inputs << ' ' << shape.outputs;
    for (const std::size_t candidate : chosen.by_rows) text << ' ' << candidates_[candidate].name;
    text << ' ' << chosen.seconds_per_row << '\n';
  }
  return text.str();
}

bool LinearChoice::Parse(const std::string& text, std::span<const ggml_tensor* const> weights) {
  std::map<LinearShape, Measured> parsed;
  std::set<LinearShape> wanted;
  for (const ggml_tensor* weight : weights) {
    if (LiesAsInFile(*weight)) wanted.insert(ShapeOf(*weight));
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string type;
    LinearShape shape;
    if (!(words >> type >> shape.inputs >> shape.outputs)) return false;
    const auto found = std::find_if(wanted.begin(), wanted.end(), [&](const LinearShape& w) {
      return w.inputs == shape.inputs && w.outputs == shape.outputs &&
             type == ggml_type_name(w.type);
    });
    if (found == wanted.end()) return false;
    Measured chosen;
    for (std::size_t& index : chosen.by_rows) {
      std::string name;
      words >> name;
      const auto candidate = std::find_if(candidates_.begin(), candidates_.end(),
                                          [&](const Candidate& c) { return c.name == name; });
      if (candidate == candidates_.end()) return false;
      if (candidate->backend != nullptr && !candidate->backend->Serves(*found)) return false;
      index = static_cast<std::size_t>(candidate - candidates_.begin());
    }
    if (!(words >> chosen.seconds_per_row) || !(chosen.seconds_per_row > 0)) return false;
    parsed[*found] = chosen;
  }
  if (parsed.size() != wanted.size()) return false;
  chosen_ = std::move(parsed);
  return true;
}

}  // namespace swiftkv
