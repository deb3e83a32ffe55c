// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench attention`, the cases that follow from it, and the figures of
// rows.
#include "tools/bench_attention_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "formats/page_format_table.h"
#include "tools/bench_attention_report.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Result<BenchAttentionOptions> Parse(std::vector<const char*> arguments) {
  return ParseBenchAttentionOptions(arguments);
}

std::vector<AttentionCase> Cases(std::vector<const char*> arguments) {
  const Result<BenchAttentionOptions> options = Parse(std::move(arguments));
  EXPECT_TRUE(options.ok()) << options.status().message();
  return ListAttentionCases(*options).value();
}

TEST(BenchAttentionOptionsTest, EveryFlagReachesItsField) {
  const Result<BenchAttentionOptions> options =
      Parse({"--phases",     "prefill",  "--formats",   "bf16,f16",   "--head-dims",
             "128",          "--gqa",    "0,7",         "--contexts", "100,200",
             "--batches",    "3",        "--shared",    "32",         "--prefill-contexts",
             "77",           "--isa",    "portable",    "-t",         "1",
             "--rounds",     "9",        "--megabytes", "2",          "--huge-pages",
             "--no-shuffle", "--ratios", "0,.25",       "--json"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->phases, (NameList{{"prefill"}}));
  EXPECT_EQ(options->formats, (NameList{{"bf16", "f16"}}));
  EXPECT_EQ(options->head_dims, (NumberList{{128}}));
  EXPECT_EQ(options->gqa, (NumberList{{0, 7}}));
  EXPECT_EQ(options->contexts, (NumberList{{100, 200}}));
  EXPECT_EQ(options->batches, (NumberList{{3}}));
  EXPECT_EQ(options->shared_tokens, 32);
  EXPECT_EQ(options->prefill_contexts, (NumberList{{77}}));
  EXPECT_EQ(options->ratios, (NameList{{"0", ".25"}}));
  EXPECT_EQ(options->isa, "portable");
  EXPECT_EQ(options->threads, 1);
  EXPECT_EQ(options->rounds, 9);
  EXPECT_EQ(options->megabytes, 2);
  EXPECT_TRUE(options->huge_pages);
  EXPECT_FALSE(options->shuffled);
  const std::vector<AttentionCase> cases = ListAttentionCases(*options).value();
  for (const AttentionCase& each : cases) {
    EXPECT_FALSE(each.pages.shuffled);
  }
  EXPECT_TRUE(options->json);
}

TEST(BenchAttentionOptionsTest, WhatCannotWorkIsRefusedBeforeAnythingIsMeasured) {
  struct Bad {
    std::vector<const char*> arguments;
    const char* says;
  };
  const std::vector<Bad> all = {{{"--formats", "int9"}, "int9"},
                                {{"--formats", "f16/int9"}, "int9"},
                                {{"--formats", "f16,"}, "--formats accepts"},
                                {{"--phases", "decode,encode"}, "encode"},
                                {{"--contexts", "0"}, "--contexts accepts"},
                                {{"--batches", "1,x"}, "--batches accepts"},
                                {{"--head-dims", "8"}, "--head-dims accepts"},
                                {{"--head-dims", "72", "--formats", "f16"}, "72"},
                                {{"--head-dims", "72"}, "72"},
                                {{"--shared", "0"}, "--shared accepts"},
                                {{"--isa", "sse1"}, "sse1"},
                                {{"--megabytes", "0"}, "--megabytes accepts"},
                                {{"--rounds", "0"}, "--rounds accepts"},
                                {{"--ratios", "0,1"}, "got \"1\""},
                                {{"extra"}, "extra"}};
  for (const Bad& bad : all) {
    const Result<BenchAttentionOptions> options = Parse(bad.arguments);
    ASSERT_FALSE(options.ok()) << bad.says;
    EXPECT_THAT(options.status().message(), HasSubstr(bad.says));
    EXPECT_EQ(options.status().message().find('\n'), std::string::npos);
  }
}

TEST(BenchAttentionRowsTest, EveryPhaseIsACrossProductOfWhatAppliesToIt) {
  const std::vector<AttentionCase> cases =
      Cases({"--formats", "f16,bf16", "--head-dims", "64,128", "--contexts", "64,4096", "--batches",
             "1,2,5", "--shared", "100", "--prefill-contexts", "16,1000"});
  int decode = 0;
  int cascade = 0;
  int prefill = 0;
  for (const AttentionCase& each : cases) {
    const BenchPagesSpec& pages = each.pages;
    switch (each.phase) {
      case BenchPhase::kDecode:
        ++decode;
        EXPECT_EQ(pages.queries, 1);
        EXPECT_EQ(pages.shared_tokens, 0);
        break;
      case BenchPhase::kCascade:
        ++cascade;
        EXPECT_GT(pages.batch, 1);
        EXPECT_EQ(pages.shared_tokens, 112);  // whole pages
        EXPECT_GT(pages.context, 112);
        EXPECT_EQ(each.private_pages.context, pages.context);
        EXPECT_EQ(each.private_pages.shared_tokens, 0);
        break;
      case BenchPhase::kPrefill:
        ++prefill;
        EXPECT_EQ(pages.batch, 1);
        EXPECT_EQ(pages.queries, std::min(512, pages.context));
        break;
    }
  }
  EXPECT_EQ(decode, 2 * 2 * 2 * 3);
  EXPECT_EQ(cascade, 2 * 2 * 2);
  EXPECT_EQ(prefill, 2 * 2 * 2);
}

TEST(BenchAttentionRowsTest, APassOfDecodeReadsAtLeastSixHundredMegabytes) {
  for (const AttentionCase& each : Cases({"--phases", "decode", "--batches", "1,3,16"})) {
    const BenchWork work = WorkOf(each.pages);
    EXPECT_GE(work.distinct_bytes, 600'000'000U);
    EXPECT_EQ(work.distinct_bytes, work.pages * work.page_bytes);
    EXPECT_LE(work.distinct_bytes, 1'400'000'000U);
  }
}

TEST(BenchAttentionRowsTest, EachRatioIsADecodeBesideWhichNothingWasRemoved) {
  const std::vector<AttentionCase> cases =
      Cases({"--phases", "decode", "--formats", "f16", "--head-dims", "64", "--batches", "1,4",
             "--ratios", "0.5,0.75"});
  ASSERT_THAT(cases, SizeIs(2 * 3));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double removed[] = {0, 0.5, 0.75};
    EXPECT_EQ(cases[i].pages.removed, removed[i % 3]);
    EXPECT_EQ(cases[i].private_pages.removed, 0);
    EXPECT_EQ(cases[i].private_pages.context, cases[i].pages.context);
    EXPECT_EQ(cases[i].private_pages.batch, cases[i].pages.batch);
    const BenchWork work = WorkOf(cases[i].pages);
    const BenchWork dense = WorkOf(cases[i].private_pages);
    EXPECT_GE(work.distinct_bytes, 600'000'000U);
    const double kept = (static_cast<double>(work.distinct_bytes) / work.calls) /
                        (static_cast<double>(dense.distinct_bytes) / dense.calls);
    EXPECT_NEAR(kept, 1 - removed[i % 3], 1e-3);
  }
}

TEST(BenchAttentionRowsTest, GroupsAreThoseOfModelsOrAsGiven) {
  const auto shape = [](std::vector<const char*> arguments) {
    return Cases(std::move(arguments)).front().pages.shape;
  };
  EXPECT_EQ(shape({"--head-dims", "64"}).num_heads, 9);
  EXPECT_EQ(shape({"--head-dims", "64"}).num_kv_heads, 3);
  EXPECT_EQ(shape({"--head-dims", "128", "--gqa", "8"}).num_heads, 64);
  EXPECT_FLOAT_EQ(shape({"--head-dims", "256"}).scale, 1.0F / 16);
}

TEST(BenchAttentionRowsTest, AllFormatsAreThoseThatTheKernelsComputeWithoutTheOracle) {
  std::set<std::string> names;
  for (const AttentionCase& each : Cases({})) names.insert(each.format);
  EXPECT_EQ(names.count("f32"), 0U);
  const auto backend = MakeAttentionBackend("cpu", "auto").value();
  for (const NamedPageFormat& row : AllPageFormats()) {
    const AttentionShape shape = {.num_heads = 9, .num_kv_heads = 3, .head_dim = 64, .scale = 1};
    const bool wanted =
        row.format != *FindPageFormat("f32") && backend->Serves(shape, row.format).ok();
    EXPECT_EQ(names.count(row.name) == 1, wanted) << row.name;
  }
}

AttentionRow RowOf(BenchPhase phase, double us) {
  AttentionRow row;
  for (const AttentionCase& each : Cases({"--formats", "f16", "--head-dims", "64", "--batches",
                                          "1,16", "--prefill-contexts", "512,6500"})) {
    if (each.phase == phase) row.what = each;  // the last one: prefill's longest context
  }
  row.us = us;
  return row;
}

TEST(BenchAttentionRowsTest, TheBoundOfACascadeIsTheLargerOfReadingAndComputing) {
  const AttentionRow prefill = RowOf(BenchPhase::kPrefill, 20'000);
  AttentionRow cascade = RowOf(BenchPhase::kCascade, 100'000);
  const BenchWork work = WorkOf(cascade.what.pages);
  const double computing_us = work.flops / (GflopPerSecond(prefill) * 1e3);

  cascade.stream_gb_s = 1e6;  // reading costs nothing
  std::vector<AttentionRow> rows = {cascade, prefill};
  AddCascadeBounds(&rows);
  EXPECT_NEAR(*rows[0].bound_us, computing_us, computing_us * 1e-9);
  EXPECT_NEAR(*rows[0].bound_ratio, 100'000 / computing_us, 1e-9);

  rows[0].stream_gb_s = 1e-3;  // reading costs everything
  AddCascadeBounds(&rows);
  EXPECT_NEAR(*rows[0].bound_us, static_cast<double>(work.distinct_bytes), 1);

  rows = {cascade};
  AddCascadeBounds(&rows);
  EXPECT_FALSE(rows[0].bound_us.has_value());
}

TEST(BenchAttentionReportTest, RatesFollowFromBytesOperationsAndTime) {
  AttentionBenchResult result;
  result.machine.gb_s = 28;
  result.machine.gflop_s = 300;
  result.rows = {RowOf(BenchPhase::kDecode, 25'000)};
  result.rows[0].fraction = 0.75;
  const auto json = nlohmann::json::parse(AttentionBenchJson(result, {}));
  EXPECT_EQ(json["machine_gb_s"], 28);
  EXPECT_TRUE(json["machine_amx_bf16_gflop_s"].is_null());
  ASSERT_THAT(json["rows"], SizeIs(1));
  const auto& row = json["rows"][0];
  const double bytes = row["bytes_read"].get<double>();
  EXPECT_EQ(bytes, static_cast<double>(WorkOf(result.rows[0].what.pages).distinct_bytes));
  EXPECT_NEAR(row["gb_s"].get<double>(), bytes / 25'000e-6 * 1e-9, 1e-3);
  EXPECT_NEAR(row["gflop_s"].get<double>(), WorkOf(result.rows[0].what.pages).flops / 25e-3 * 1e-9,
              1e-3);
  EXPECT_EQ(row["fraction"], 0.75);
  EXPECT_TRUE(row["raw_fraction"].is_null());
  EXPECT_THAT(AttentionBenchText(result), HasSubstr("0.75"));
}

}  // namespace
}  // namespace swiftkv
