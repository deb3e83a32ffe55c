// SPDX-License-Identifier: Apache-2.0
// Tests whose queries a policy looks at: the prompt's own, or the model's where the prompt is in
// the cache already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/query_measurement.h"
#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::SizeIs;

constexpr TinySessionOptions kOptions = {.context = 1024, .chunk = 64};
constexpr EngineLimits kLimits = {.ceiling = Quality::kAny};
constexpr const char* kPolicy = "expected_attention:recent=16,min_tokens=64";

std::shared_ptr<const ModelQueryFigures> Figures() {
  const TinySession session = MakeTinySession(kOptions);
  const std::vector<TokenId> text = TinyPrompt(600, 11);
  ModelQueryFigures figures =
      MeasureQueryFigures(session.model.get(), {.tokens = text, .window = 300}, nullptr, nullptr)
          .value();
  figures.fingerprint = "measured";
  return std::make_shared<const ModelQueryFigures>(std::move(figures));
}

TinyEngine MakeEngine(const TinySessionOptions& options = kOptions) {
  static const std::shared_ptr<const ModelQueryFigures> figures = Figures();
  return MakeTinyEngine(options, kLimits, figures);
}

EngineRequest ForgettingRequest(std::vector<TokenId> prompt, int max_tokens = 6) {
  EngineRequest request = GreedyRequest(std::move(prompt), max_tokens);
  request.forgetting = Forgetting{.policy = kPolicy, .ratio = 0.5};
  return request;
}

EngineRequest DenseRequest(std::vector<TokenId> prompt) {
  return GreedyRequest(std::move(prompt), 1);
}

RequestUsage UsageOf(TinyEngine* tiny, EngineRequest request) {
  TokenStream stream = tiny->Submit(std::move(request));
  ReadAll(&stream);
  EXPECT_TRUE(stream.status().ok()) << stream.status().message();
  return stream.usage();
}

TEST(ForgettingStatisticsTest, APromptThatIsComputedIsJudgedByItsOwnQueries) {
  TinyEngine tiny = MakeEngine();
  const RequestUsage cold = UsageOf(&tiny, ForgettingRequest(TinyPrompt(400)));
  EXPECT_EQ(cold.kv.query_statistics, "own");
  EXPECT_EQ(cold.kv.compactions, 1);
  EXPECT_EQ(cold.cached_tokens, 0);
  EXPECT_EQ(UsageOf(&tiny, DenseRequest(TinyPrompt(50, 2))).kv.query_statistics, "");
  tiny.ExpectDrained();
}

TEST(ForgettingStatisticsTest, APromptInTheCacheIsNotComputedAgainButJudgedByTheModels) {
  TinyEngine tiny = MakeEngine();
  UsageOf(&tiny, DenseRequest(TinyPrompt(400)));
  const RequestUsage warm = UsageOf(&tiny, ForgettingRequest(TinyPrompt(400)));
  EXPECT_EQ(warm.kv.query_statistics, "model");
  EXPECT_EQ(warm.kv.compactions, 1);
  EXPECT_GT(warm.cached_tokens, 300);
  EXPECT_LT(warm.kv.kept_tokens, 260);
  // What it made serves the next one, who learns by whose queries it was chosen.
  const RequestUsage next = UsageOf(&tiny, ForgettingRequest(TinyPrompt(400)));
  EXPECT_EQ(next.kv.query_statistics, "model");
  EXPECT_EQ(next.kv.compactions, 0);
  EXPECT_GT(next.kv.compressed_tokens, 300);
  tiny.ExpectDrained();
}

TEST(ForgettingStatisticsTest, ASmallPartOfThePromptIsComputedAgain) {
  TinyEngine tiny = MakeEngine();
  UsageOf(&tiny, DenseRequest(TinyPrompt(120)));
  const RequestUsage usage =
      UsageOf(&tiny, ForgettingRequest(Join(TinyPrompt(120), TinyPrompt(280, 5))));
  EXPECT_EQ(usage.kv.query_statistics, "own");
  EXPECT_EQ(usage.cached_tokens, 0);
  tiny.ExpectDrained();
}

TEST(ForgettingStatisticsTest, WithoutFiguresOfTheModelAllIsComputedAgain) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  UsageOf(&tiny, DenseRequest(TinyPrompt(400)));
  const RequestUsage usage = UsageOf(&tiny, ForgettingRequest(TinyPrompt(400)));
  EXPECT_EQ(usage.kv.query_statistics, "own");
  EXPECT_EQ(usage.cached_tokens, 0);
  tiny.ExpectDrained();
}

TEST(ForgettingStatisticsTest, APrefixInTheCacheIsCompressedForOthersByTheModels) {
  TinyEngine tiny = MakeEngine();
  const std::vector<TokenId> document = TinyPrompt(320);
  UsageOf(&tiny, DenseRequest(document));
  EngineRequest compress = ForgettingRequest(document, 0);
  compress.keep_compressed_ms = 600'000;
  EXPECT_EQ(UsageOf(&tiny, compress).kv.query_statistics, "model");
  const RequestUsage user = UsageOf(&tiny, ForgettingRequest(Join(document, TinyPrompt(9, 3))));
  EXPECT_EQ(user.kv.query_statistics, "model");
  EXPECT_EQ(user.kv.compressed_tokens, 320);
  tiny.ExpectDrained();
}

TEST(ForgettingStatisticsTest, RecipesTellThemApart) {
  const auto figures = std::make_shared<ModelQueryFigures>();
  figures->fingerprint = "abc";
  const DecoderSpec decoder;
  const std::vector<LayerShape> layers(4, LayerShape{.kv_heads = 2, .head_dim = 64});
  const ForgettingTarget target = {
      .layers = layers, .format = {}, .decoder = &decoder, .figures = figures};
  const Forgetting asked = {.policy = "expected_attention", .ratio = 0.5};
  const auto rule = MakeForgettingRule(asked, target).value();
  EXPECT_NE(rule->recipes(true).prompt, rule->recipes(false).prompt);
  EXPECT_NE(rule->recipes(true).shared, rule->recipes(false).shared);
  EXPECT_THAT(rule->recipes(true).prompt, testing::HasSubstr("statistics=abc"));
  EXPECT_EQ(MakeForgettingRule({.policy = "keydiff", .ratio = 0.5}, target).value()->figures,
            nullptr)
      << "it looks at no queries";
}

TEST(ForgettingStatisticsTest, WhoLosesItsPlaceComesBackByTheSameQueries) {
  TinySessionOptions scarce = kOptions;
  const TinySession shape = MakeTinySession({});
  scarce.cache_bytes = shape.session->footprint().PageBytes(900) + (48 << 10);
  TinyEngine tiny = MakeEngine(scarce);
  UsageOf(&tiny, DenseRequest(TinyPrompt(200, 0)));
  std::vector<TokenStream> streams;
  for (int i = 0; i < 5; ++i)
    streams.push_back(tiny.Submit(ForgettingRequest(TinyPrompt(200, i), 200)));
  for (TokenStream& stream : streams) {
    EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(200));
    EXPECT_TRUE(stream.status().ok()) << stream.status().message();
  }
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
