// SPDX-License-Identifier: Apache-2.0
// Runs `bench capacity` on a tiny model: keys, concurrency and refusals, never speeds.
#include <map>
#include <set>

#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

class BenchCapacityScenario : public RunScenario {
 protected:
  ProcessOutcome Bench(std::vector<std::string> arguments) const {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "bench", "capacity",     "-t", "1",
                      "--linear",       "ggml",  "--max-length", "256"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  json BenchJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    return JsonOf(Bench(std::move(arguments)));
  }
};

TEST_F(BenchCapacityScenario, ReservationsHoldTheirNumberAndPagingMore) {
  const json result =
      BenchJson({"--lengths", "fixed:60", "--requests", "40", "--reservations", "1,2"});
  EXPECT_EQ(result["requests"], 40);
  EXPECT_EQ(result["max_length"], 256);
  EXPECT_EQ(result["mean_prompt_tokens"], 30);
  EXPECT_EQ(result["mean_output_tokens"], 30);
  ASSERT_THAT(result["rows"], SizeIs(12));
  std::map<std::string, double> mean;
  for (const json& row : result["rows"]) {
    SCOPED_TRACE(row.dump());
    std::set<std::string> keys;
    for (const auto& item : row.items()) keys.insert(item.key());
    EXPECT_THAT(keys, IsSupersetOf({"allocator", "format", "reservations", "memory_bytes",
                                    "shared_tokens", "max_concurrent", "mean_concurrent",
                                    "tokens_per_s", "latency_mean_ms", "latency_p99_ms"}));
    const int reservations = row["reservations"].get<int>();
    const auto allocator = row["allocator"].get<std::string>();
    const int most = row["max_concurrent"].get<int>();
    if (allocator == "contiguous_max") {
      EXPECT_EQ(most, reservations);
    }
    if (allocator == "contiguous_pow2" || allocator == "contiguous_exact") {
      EXPECT_EQ(most, 4 * reservations) << "60 tokens are 64 slots";
      EXPECT_EQ(row["preemptions"], 0);
    }
    if (allocator == "paged") {
      EXPECT_GE(most, 3 * reservations) << "how many more depends on how steps fall together";
    }
    EXPECT_LE(row["mean_concurrent"].get<double>(), most);
    EXPECT_LE(row["whole_mean_concurrent"].get<double>(), most);
    EXPECT_GT(row["whole_tokens_per_s"].get<double>(), 0);
    EXPECT_GT(row["tokens_per_s"].get<double>(), 0);
    EXPECT_GE(row["latency_p99_ms"].get<double>(), row["latency_mean_ms"].get<double>());
    EXPECT_EQ(row["shared_tokens"], 0);
    if (reservations == 2) {
      mean[allocator + " " + row["format"].get<std::string>()] =
          row["mean_concurrent"].get<double>();
    }
  }
  EXPECT_GT(mean["paged f16"], 2 * mean["contiguous_max f16"]);
  EXPECT_GT(mean["paged int8"], mean["paged f16"]);
}

TEST_F(BenchCapacityScenario, EveryRequestIsAsLongAsItsDrawWhateverTheModelSays) {
  const json result =
      BenchJson({"--lengths", "alpaca", "--requests", "30", "--reservations", "1", "--shared", "32",
                 "--allocators", "contiguous_max,paged", "--formats", "f16"});
  ASSERT_THAT(result["rows"], SizeIs(2));
  for (const json& row : result["rows"]) EXPECT_EQ(row["shared_tokens"], 32);
  EXPECT_EQ(result["rows"][0]["cached_fraction"], 0) << "reservations share nothing";
}

TEST_F(BenchCapacityScenario, PeopleGetATableAndWhatCannotBeIsOneSentence) {
  const ProcessOutcome table = Bench(
      {"--lengths", "fixed:20", "--requests", "6", "--reservations", "1", "--formats", "f16"});
  ASSERT_EQ(table.exit_status, 0) << table.error;
  for (const char* word : {"contiguous_pow2", "paged", "f16", "latency", "(1.0x)"}) {
    EXPECT_THAT(table.output, HasSubstr(word));
  }
  ExpectOneSentence(Bench({"--allocators", "slab"}), 2);
  ExpectOneSentence(Bench({"--lengths", "mean"}), 2);
  ExpectOneSentence(Bench({"-m", directory_.FilePath("absent.gguf")}), 1);
}

}  // namespace
}  // namespace swiftkv
