// SPDX-License-Identifier: Apache-2.0
// Runs `bench waste` as its users do: keys, the promise on waste, repeatability and refusals.
#include <fstream>
#include <set>
#include <sstream>

#include "scenarios/run_scenario.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

ProcessOutcome Bench(std::vector<std::string> arguments) {
  ProcessSpec spec;
  spec.arguments = {SwiftkvProgram(), "bench", "waste"};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  return RunProcess(spec);
}

json BenchJson(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  return JsonOf(Bench(std::move(arguments)));
}

TEST(BenchWasteScenario, PagingWastesLittleInEveryFormatAndReservationMostOfItsMemory) {
  const std::string requests = kSanitized ? "32" : "64";
  json result = BenchJson({"--batch", "16", "--lengths", "sharegpt", "--geometry", "smollm2",
                           "--allocators", "paged", "--requests", requests});
  ASSERT_THAT(result["rows"], SizeIs(7));
  const json reserved = BenchJson(
      {"--batch", "16", "--lengths", "sharegpt", "--geometry", "smollm2", "--formats", "f16,int4",
       "--allocators", "contiguous_max,contiguous_pow2,contiguous_exact", "--requests", requests});
  for (const json& row : reserved["rows"]) result["rows"].push_back(row);
  ASSERT_THAT(result["rows"], SizeIs(13));
  EXPECT_THAT(reserved["skipped"], SizeIs(0));
  std::set<std::string> formats;
  for (const json& row : result["rows"]) {
    SCOPED_TRACE(row.dump());
    std::set<std::string> keys;
    for (const auto& item : row.items()) keys.insert(item.key());
    EXPECT_THAT(keys, IsSupersetOf({"allocator", "format", "geometry", "batch", "lengths", "filled",
                                    "reserved", "internal", "external", "waste_fraction",
                                    "waste_bytes_fraction"}));
    EXPECT_EQ(row["batch"], 16);
    EXPECT_EQ(row["lengths"], "sharegpt");
    EXPECT_EQ(row["geometry"], "smollm2");
    const auto share = [&](const char* key) { return row[key].get<double>(); };
    EXPECT_NEAR(share("filled") + share("reserved") + share("internal") + share("external"), 1,
                1e-5);
    EXPECT_NEAR(share("waste_fraction"), 1 - share("filled"), 1e-5);
    formats.insert(row["format"].get<std::string>());
    if (row["allocator"] == "paged") {
      EXPECT_LT(share("waste_fraction"), 0.025);
      // A sanitizer's shadow is mapped as a cache's ranges are.
      if (!kSanitized) {
        EXPECT_LT(share("waste_bytes_fraction"), 0.04);
      }
      EXPECT_GE(share("waste_bytes_fraction"), 0.01)
          << "one of 32 slots of a block is free on average";
    } else if (row["allocator"] == "contiguous_max") {
      EXPECT_GT(share("waste_fraction"), 0.6);
      EXPECT_GT(share("waste_bytes_fraction"), 0.6);
    } else if (row["allocator"] == "contiguous_exact") {
      EXPECT_EQ(share("internal"), 0);
    }
  }
  EXPECT_THAT(formats, SizeIs(7));
}

TEST(BenchWasteScenario, SlotsOfFixedLengthsAreWhatArithmeticSays) {
  const json result =
      BenchJson({"--lengths", "fixed:64", "--batch", "2", "--requests", "8", "--geometry",
                 "smollm2", "--formats", "f16", "--block-sizes", "16,64,128"});
  EXPECT_EQ(result["steps"], 4 * 33);
  const double tokens = 48;  // 32, 33, ... 64 on average
  const auto row = [&](std::size_t index) { return result["rows"][index]; };
  // 32 tokens fill 2 blocks, 33-48 need 3, 49-64 need 4.
  const double paged = (2 * 1 + 3 * 16 + 4 * 16) * 16.0 / 33;
  EXPECT_NEAR(row(0)["filled"].get<double>(), tokens / paged, 1e-6);
  EXPECT_EQ(row(0)["internal"], 0);
  EXPECT_NEAR(row(1)["filled"].get<double>(), tokens / 2048, 1e-6);
  EXPECT_NEAR(row(1)["reserved"].get<double>(), (64 - tokens) / 2048, 1e-6);
  EXPECT_NEAR(row(2)["filled"].get<double>(), tokens / 64, 1e-6);
  EXPECT_NEAR(row(3)["filled"].get<double>(), tokens / 64, 1e-6);
  ASSERT_THAT(result["block_sizes"], SizeIs(3));
  EXPECT_NEAR(result["block_sizes"][0]["waste_fraction"].get<double>(), 1 - tokens / paged, 1e-6);
  EXPECT_NEAR(result["block_sizes"][1]["reserved"].get<double>(), 0.25, 1e-6);
  EXPECT_NEAR(result["block_sizes"][2]["internal"].get<double>(), 0.5, 1e-6);
}

TEST(BenchWasteScenario, TheSameSeedGivesTheSameFigures) {
  const std::vector<std::string> arguments = {"--requests", "20",      "--batch",   "4",
                                              "--geometry", "smollm2", "--formats", "int8,int4",
                                              "--lengths",  "alpaca",  "--seed",    "9"};
  // The kernel decides how many frames stay resident; slots follow from the seed alone.
  const auto slots = [&] {
    json result = BenchJson(arguments);
    for (json& row : result["rows"]) {
      for (const char* of_kernel :
           {"resident_bytes", "peak_resident_bytes", "waste_bytes_fraction"}) {
        EXPECT_EQ(row.erase(of_kernel), 1U) << of_kernel;
      }
    }
    return result;
  };
  EXPECT_EQ(slots(), slots());
}

TEST(BenchWasteScenario, WhatDoesNotFitIsLeftOutByName) {
  const json result =
      BenchJson({"--geometry", "smollm2", "--formats", "f16", "--batch", "2", "--requests", "4",
                 "--lengths", "fixed:100", "--kv-memory", "16MiB"});
  ASSERT_THAT(result["rows"], SizeIs(3));
  EXPECT_EQ(result["rows"][0]["allocator"], "paged");
  if (!kSanitized) {  // a sanitizer's shadow is counted among the ranges
    EXPECT_LE(result["rows"][0]["peak_resident_bytes"], 16 << 20);
  }
  ASSERT_THAT(result["skipped"], SizeIs(1));
  EXPECT_EQ(result["skipped"][0]["allocator"], "contiguous_max");
  EXPECT_THAT(result["skipped"][0]["reason"].get<std::string>(), HasSubstr("16777216"));
}

TEST(BenchWasteScenario, PeopleGetTablesAndAChart) {
  const TempDirectory directory;
  const std::string chart = directory.FilePath("waste.svg");
  const ProcessOutcome outcome =
      Bench({"--geometry", "smollm2", "--formats", "f16", "--batch", "2", "--requests", "4",
             "--lengths", "fixed:100", "--svg", chart});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  for (const char* word :
       {"paged", "contiguous_pow2", "reserved", "internal", "external", "block"}) {
    EXPECT_THAT(outcome.output, HasSubstr(word));
  }
  std::ifstream file(chart);
  std::stringstream svg;
  svg << file.rdbuf();
  EXPECT_THAT(svg.str(), testing::StartsWith("<svg "));
  EXPECT_THAT(svg.str(), HasSubstr("contiguous_exact"));
}

TEST(BenchWasteScenario, WhatCannotBeMeasuredIsOneSentence) {
  ExpectOneSentence(Bench({"--lengths", "fixed:0"}), 2);
  ExpectOneSentence(Bench({"--geometry", "gpt-5"}), 2);
  ExpectOneSentence(Bench({"--formats", "int9"}), 2);
  ExpectOneSentence(Bench({"--allocators", "buddy"}), 2);
  ExpectOneSentence(Bench({"--batch", "8", "--requests", "7"}), 2);
  ExpectOneSentence(Bench({"--block-sizes", "0"}), 2);
  ExpectOneSentence(Bench({"--geometry", "smollm2", "--formats", "f16", "--batch", "1",
                           "--requests", "1", "--svg", "/proc/no/chart.svg"}),
                    1);
}

}  // namespace
}  // namespace swiftkv
