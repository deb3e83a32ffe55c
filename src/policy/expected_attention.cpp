// SPDX-License-Identifier: Apache-2.0
// Scores tokens by the attention that queries of the next positions are expected to pay to them.
//
// Queries of a head are taken as normal, with mean m and covariance C after the mean rotation of
// the next `horizon` positions (policy/future_queries.h), s is the scale of scores, k_t and v_t are
// the stored key and value. The expected exponential of a score has a closed form, so for each
// query head
//     z_t = s m'k_t + s^2 / 2 k_t'C k_t         a = softmax(z) over the tokens that are no sinks
//     score = (mean of a_t over the group + epsilon) * ||v_t||
//             the highest of these for sinks
// Paper: Devoto, Jeblick, Jegou, "Expected Attention: KV Cache Compression by Estimating Attention
// from Future Queries Distribution" (2025, arXiv:2510.00636).
// Cost: keys are read once; head_dim^2 + 5 head_dim operations a token and query head, half of the
// multiplications of a full k'C k because C is symmetric.
#include "policy/expected_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "policy/future_queries.h"
#include "policy/policy_parameters.h"

namespace swiftkv {
namespace {

constexpr ParameterSpec kParameters[] = {
    {.name = "horizon", .default_value = 512, .least = 1, .most = 1048576, .whole = true},
    {.name = "epsilon", .default_value = 0.01, .least = 0, .most = 1, .whole = false},
    {.name = "sinks", .default_value = 4, .least = 0, .most = 65536, .whole = true},
};
constexpr const ParameterSpec& kHorizon = kParameters[0];
constexpr const ParameterSpec& kEpsilon = kParameters[1];
constexpr const ParameterSpec& kSinks = kParameters[2];

constexpr PolicyInfo kInfo = {
    .name = "expected_attention",
    .description = "keep what future queries are expected to read, by the statistics of past ones",
    .paper = "Expected Attention: KV Cache Compression by Estimating Attention (2025)",
    .needs = {.keys = true, .value_norms = true, .query_statistics = true},
    .query_agnostic = true,
    .usual_split = BudgetSplit::kAda,
    .parameters = kParameters,
};

constexpr std::size_t kTileTokens = 8;  // keys side by side, as the lanes of a vector
constexpr std::size_t kTileRows = 4;    // rows of a covariance that share the loading of a key
constexpr float kLargestLogit = 1e30F;

// What a query head is expected to ask. z_t = k_t' (mean + lower k_t).
struct Question {
  std::vector<float> mean;   // [rows] times s
  std::vector<float> lower;  // [rows, rows] s^2 / 2 C, its upper part added to the lower, above: 0
};

// Sizes of one call; `rows` is head_dim rounded up to kTileRows, filled up with zeros.
struct Sizes {
  std::size_t tokens;
  std::size_t dim;
  std::size_t rows;
  std::size_t gqa;
};

Question MakeQuestion(const ScoreInputs& inputs, const MeanRotation& rotation, const Sizes& sizes,
                      std::size_t query_head) {
  const std::size_t dim = sizes.dim;
  const auto mean = inputs.query_mean.subspan(query_head * dim, dim);
  const auto covariance = inputs.query_covariance.subspan(query_head * dim * dim, dim * dim);
  std::vector<float> turned(covariance.begin(), covariance.end());
  rotation.TurnMatrix(turned, dim);
  Question question;
  question.mean.assign(sizes.rows, 0);
  std::copy(mean.begin(), mean.end(), question.mean.begin());
  rotation.TurnRow(question.mean);
  const float scale = inputs.attention_scale;
  for (float& value : question.mean) value *= scale;
  question.lower.assign(sizes.rows * sizes.rows, 0);
  for (std::size_t i = 0; i < dim; ++i) {
    float* const row = question.lower.data() + i * sizes.rows;
    for (std::size_t j = 0; j < i; ++j) {
      row[j] = 0.5F * scale * scale * (turned[i * dim + j] + turned[j * dim + i]);
    }
    row[i] = 0.5F * scale * scale * turned[i * dim + i];
  }
  return question;
}

// Writes the keys of up to kTileTokens tokens as columns: `tile` is [rows, kTileTokens].
void LoadTile(const float* keys, std::size_t count, const Sizes& sizes, float* tile) {
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t i = 0; i < sizes.dim; ++i) tile[i * kTileTokens + t] = keys[t * sizes.dim + i];
  }
}

void ScoreTile(const Question& question, const float* tile, std::size_t rows,
               float (&logits)[kTileTokens]) {
  std::fill_n(logits, kTileTokens, 0.0F);
  for (std::size_t first = 0; first < rows; first += kTileRows) {
    float sums[kTileRows][kTileTokens];
    const float* lower[kTileRows];
    for (std::size_t r = 0; r < kTileRows; ++r) {
      lower[r] = question.lower.data() + (first + r) * rows;
      std::fill_n(sums[r], kTileTokens, question.mean[first + r]);
    }
    for (std::size_t j = 0; j < first + kTileRows; ++j) {
      const float* const column = tile + j * kTileTokens;
      for (std::size_t r = 0; r < kTileRows; ++r) {
        const float weight = lower[r][j];
        for (std::size_t t = 0; t < kTileTokens; ++t) sums[r][t] += weight * column[t];
      }
    }
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const float* const column = tile + (first + r) * kTileTokens;
      for (std::size_t t = 0; t < kTileTokens; ++t) logits[t] += sums[r][t] * column[t];
    }
  }
}

// Adds the softmax of `logits` to `sums`.
void AddSoftmax(std::span<float> logits, std::span<float> sums) {
  if (logits.empty()) return;
  const float highest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float& logit : logits) {
    logit = std::exp(logit - highest);
    total += static_cast<double>(logit);
  }
  const auto inverse = static_cast<float>(1 / total);
  for (std::size_t t = 0; t < logits.size(); ++t) sums[t] += logits[t] * inverse;
}

// Writes the logits of a kv head's query heads, [gqa, tokens].
void AskHead(const std::vector<Question>& questions, const float* keys, const Sizes& sizes,
             std::vector<float>* logits) {
  std::vector<float> tile(sizes.rows * kTileTokens);
  for (std::size_t first = 0; first < sizes.tokens; first += kTileTokens) {
    const std::size_t count = std::min(kTileTokens, sizes.tokens - first);
    LoadTile(keys + first * sizes.dim, count, sizes, tile.data());
    for (std::size_t g = 0; g < questions.size(); ++g) {
      float of_tile[kTileTokens];
      ScoreTile(questions[g], tile.data(), sizes.rows, of_tile);
      for (std::size_t t = 0; t < count; ++t) {
        (*logits)[g * sizes.tokens + first + t] =
            std::clamp(of_tile[t], -kLargestLogit, kLargestLogit);
      }
    }
  }
}

}  // namespace

constinit const ExpectedAttentionPolicy kExpectedAttentionPolicy;

const PolicyInfo& ExpectedAttentionPolicy::info() const { return kInfo; }

Status ExpectedAttentionPolicy::Validate(const PolicyParameters& parameters) const {
  return CheckParameters(kInfo, parameters);
}

void ExpectedAttentionPolicy::Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
                                    std::span<float> scores) const {
  const auto heads = static_cast<std::size_t>(inputs.kv_heads);
  const auto dim = static_cast<std::size_t>(inputs.head_dim);
  const Sizes sizes = {.tokens = static_cast<std::size_t>(inputs.num_tokens),
                       .dim = dim,
                       .rows = (dim + kTileRows - 1) / kTileRows * kTileRows,
                       .gqa = static_cast<std::size_t>(inputs.gqa)};
  SKV_CHECK(scores.size() == heads * sizes.tokens && inputs.value_norms.size() == scores.size());
  SKV_CHECK(inputs.positions.size() == sizes.tokens && inputs.attention_scale > 0);
  SKV_CHECK(inputs.keys.size() == scores.size() * dim && inputs.rope.frequencies.size() * 2 <= dim);
  SKV_CHECK(inputs.query_mean.size() == heads * sizes.gqa * dim &&
            inputs.query_covariance.size() == heads * sizes.gqa * dim * dim);
  const MeanRotation rotation(inputs.rope, inputs.next_position,
                              static_cast<std::int64_t>(ParameterValue(kHorizon, parameters)));
  const auto epsilon = static_cast<float>(ParameterValue(kEpsilon, parameters));
  const auto end_of_sinks = static_cast<std::int64_t>(ParameterValue(kSinks, parameters));
  const auto sinks = static_cast<std::size_t>(
      std::lower_bound(inputs.positions.begin(), inputs.positions.end(), end_of_sinks) -
      inputs.positions.begin());
  std::vector<float> logits(sizes.gqa * sizes.tokens);
  std::vector<Question> questions(sizes.gqa);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t g = 0; g < sizes.gqa; ++g) {
      questions[g] = MakeQuestion(inputs, rotation, sizes, head * sizes.gqa + g);
    }
    AskHead(questions, inputs.keys.data() + head * sizes.tokens * dim, sizes, &logits);
    const auto of_head = scores.subspan(head * sizes.tokens, sizes.tokens);
    const auto rest = of_head.subspan(sinks);
    std::fill(rest.begin(), rest.end(), 0.0F);
    for (std::size_t g = 0; g < sizes.gqa; ++g) {
      AddSoftmax(std::span(logits).subspan(g * sizes.tokens + sinks, rest.size()), rest);
    }
    const auto norms = inputs.value_norms.subspan(head * sizes.tokens + sinks, rest.size());
    for (std::size_t t = 0; t < rest.size(); ++t) {
      rest[t] = (rest[t] / static_cast<float>(sizes.gqa) + epsilon) * norms[t];
    }
    const float highest = rest.empty() ? 0.0F : *std::max_element(rest.begin(), rest.end());
    std::fill_n(of_head.begin(), sinks, highest);
  }
}

}  // namespace swiftkv
