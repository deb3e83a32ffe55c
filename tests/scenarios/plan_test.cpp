// SPDX-License-Identifier: Apache-2.0
// Tests that `plan` foretells what `run` takes, and says what does not fit.
#include <unistd.h>

#include <cmath>

#include "formats/page_format_table.h"
#include "scenarios/run_scenario.h"
#include "support/real_models.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PlanTest : public RunScenario {
 protected:
  ProcessOutcome Plan(std::vector<std::string> arguments) const {
    ProcessSpec spec;
    spec.arguments = {SwiftkvProgram(), "plan"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    spec.environment["SWIFTKV_MODEL"] = model_;
    return RunProcess(spec);
  }

  json PlanJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const ProcessOutcome outcome = Plan(std::move(arguments));
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }

  // The row of a format without forgetting, for a request of so many tokens.
  json PlanRow(const std::string& path, const std::string& format, std::int64_t tokens) const {
    const json plan = PlanJson(
        {"-m", path, "--formats", format, "--context", std::to_string(tokens), "--ratio", "0"});
    return plan["rows"].back();
  }

  // Runs a prompt in a format, whatever is known of its loss.
  json RunFormat(const std::string& path, const std::string& format, std::size_t letters) const {
    std::string prompt;
    while (prompt.size() < letters) prompt += "A page holds sixteen tokens. ";
    const ProcessOutcome outcome =
        Run({"-m", path, "-p", prompt, "--raw", "--temp", "0", "-n", "9", "--ignore-eos", "--kv",
             format, "--force", "--chunk", "512", "--kv-memory", "128MiB", "--json"});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }

  // Holds the plan to the run: frames exactly, and what is allocated and resident within 1 % and
  // an OS page, or a huge one, for each size class.
  void ExpectForetold(const std::string& path, const std::string& format, std::size_t letters) {
    SCOPED_TRACE(path + " " + format);
    const json run = RunFormat(path, format, letters);
    const json row = PlanRow(path, format, run["kv"]["logical_tokens"]);
    EXPECT_EQ(row["format"], run["kv"]["format"]);
    EXPECT_EQ(row["bytes_per_token"], run["kv"]["bytes_per_token"]);
    EXPECT_EQ(row["bytes_per_request"], run["memory"]["live_private_bytes"]);
    const double planned = row["bytes_per_request"];
    constexpr double kSizeClasses = 4;  // two layer groups, open and sealed
    const double allowed = 0.01 * planned + kSizeClasses * static_cast<double>(getpagesize());
    const double bookkeeping = row["bookkeeping_bytes"];
    EXPECT_NEAR(run["kv"]["bytes_allocated"].get<double>(), planned + bookkeeping,
                allowed + kSizeClasses * static_cast<double>(getpagesize()));
    EXPECT_NEAR(run["memory"]["pages_resident_bytes"].get<double>(), planned, allowed);
    // The bound that a request needs covers its peak, and little more.
    const double peak = run["kv"]["peak_bytes"];
    EXPECT_GE(row["bytes_of_batch"].get<double>(), peak - kSizeClasses * getpagesize());
    EXPECT_LE(row["bytes_of_batch"].get<double>(), 1.25 * peak + 10.0 * getpagesize());
  }

  void ExpectAllForetold(const std::string& path, std::size_t letters) {
    for (const NamedPageFormat& format : AllPageFormats()) {
      ExpectForetold(path, format.name, letters);
    }
  }
};

TEST_F(PlanTest, BytesAreThoseThatARunTakesInEveryFormat) { ExpectAllForetold(model_, 1500); }

TEST_F(PlanTest, WindowsAndGuardRailsAreCountedAsARunHasThem) {
  TinyModel model = ScenarioModel();
  model.name = "windowed";
  model.family = TinyFamily::kGemma3;
  model.shape.layers = 8;
  model.window.tokens = 200;
  const std::string path = WriteTinyGguf(model, directory_.path()).value();
  ExpectAllForetold(path, 1500);
}

TEST_F(PlanTest, BytesAreThoseThatTheRealModelsTake) {
  for (const RealModel real : {RealModel::kSmolLm2, RealModel::kGemma3}) {
    const Result<std::string> path = RealModelFile(real);
    if (!path.ok()) GTEST_SKIP() << path.status().message();
    if (kSanitized) {  // the tiny models above had every format; these take minutes each
      ExpectForetold(*path, "int4", 4000);
    } else {
      ExpectAllForetold(*path, 4000);
    }
  }
}

TEST_F(PlanTest, WeightsAndActivationsAreThoseOfTheLoadedModel) {
  for (const RealModel real : {RealModel::kSmolLm2, RealModel::kGemma3}) {
    const Result<std::string> path = RealModelFile(real);
    if (!path.ok()) GTEST_SKIP() << path.status().message();
    const json run = RunFormat(*path, "f16", 100);
    const json plan = PlanJson({"-m", *path});
    EXPECT_EQ(plan["weights_bytes"], run["memory"]["mapped_weights_bytes"]);
    const double activations = run["memory"]["activation_bytes"];
    EXPECT_NEAR(plan["activation_bytes"].get<double>(), activations, 0.3 * activations);
  }
}

TEST_F(PlanTest, GroupedQueryAttentionIsExplainedByTheFigureWithoutIt) {
  const json plan = PlanJson({"--preset", "llama-3.1-70b", "--context", "8192"});
  const json& row = plan["rows"][0];
  EXPECT_EQ(row["format"], "f16");
  EXPECT_EQ(row["policy"], "none");
  EXPECT_EQ(row["ratio"], 0);
  EXPECT_EQ(row["bytes_per_request"], 2684354560);
  EXPECT_EQ(row["bytes_per_request_without_gqa"], 21474836480);
  const std::string text = Plan({"--preset", "llama-3.1-70b", "--context", "8192"}).output;
  for (const char* part : {"2,684,354,560 bytes (2.50 GiB)", "21,474,836,480 bytes (20.0 GiB)",
                           "80.0 GiB at batch 32", "640 GiB at batch 32", "8 KV heads"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(PlanTest, MemoryIsDividedAndNothingIsPromisedBeyondIt) {
  const json plan =
      PlanJson({"--preset", "llama-3.1-8b", "--memory", "32GiB", "--context", "4096", "--batch",
                "40", "--prefix", "2048", "--price-per-hour", "3.6", "--tps", "100"});
  EXPECT_EQ(plan["memory_bytes"], std::uint64_t{32} << 30);
  const std::uint64_t taken = plan["weights_bytes"].get<std::uint64_t>() +
                              plan["activation_bytes"].get<std::uint64_t>() +
                              plan["kv_memory_bytes"].get<std::uint64_t>();
  EXPECT_EQ(taken, plan["memory_bytes"]);
  const std::uint64_t left = plan["kv_memory_bytes"];
  std::uint64_t before = 0;
  for (const json& row : plan["rows"]) {
    SCOPED_TRACE(row.dump());
    const std::uint64_t request = row["bytes_per_request"];
    const std::uint64_t paged = row["max_concurrent"];
    EXPECT_LE(paged * request, left);
    EXPECT_GE((paged + 1) * request, left - left / 50);
    EXPECT_GT(row["max_concurrent_shared"].get<std::uint64_t>(), paged);
    EXPECT_LT(row["max_concurrent_contiguous"].get<std::uint64_t>(), paged);
    EXPECT_EQ(row["fits"], row["max_concurrent_shared"] >= 40);
    EXPECT_EQ(row["fits"], row["max_context"] >= 4096);
    // What waits lowers the rate: 3.6 an hour at 100 tokens/s is 10 a million.
    const double running = std::min(40.0, row["max_concurrent_shared"].get<double>());
    EXPECT_NEAR(row["cost_per_million"].get<double>(), 10 * 40 / running, 1e-4);
    if (row["ratio"] == 0.5 && before == 0) before = request;
  }
  EXPECT_EQ(before * 2, plan["rows"][0]["bytes_per_request"]);
}

TEST_F(PlanTest, AModelThatDoesNotFitIsASuccessThatSaysSo) {
  const std::vector<std::string> arguments = {"--preset", "llama-3.1-405b", "--memory", "16GiB"};
  const ProcessOutcome outcome = Plan(arguments);
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("nothing fits"));
  const json plan = PlanJson(arguments);
  for (const json& row : plan["rows"]) {
    EXPECT_EQ(row["max_concurrent"], 0);
    EXPECT_EQ(row["max_concurrent_contiguous"], 0);
    EXPECT_EQ(row["max_context"], 0);
    EXPECT_EQ(row["fits"], false);
    EXPECT_EQ(row["cost_per_million"], json());
  }
  const std::string batch =
      Plan({"--preset", "llama-3.1-8b", "--memory", "24GiB", "-c", "8192", "--batch", "12"}).output;
  EXPECT_THAT(batch, HasSubstr("f16 has no room for 12 requests of 8,192 tokens"));
  EXPECT_THAT(batch, HasSubstr("the first row that fits: fp8_e4m3"));
  EXPECT_THAT(batch, HasSubstr("each of them can have"));
}

TEST_F(PlanTest, AutomaticMemoryIsThatOfTheCacheOfARun) {
  const json plan = PlanJson({"-m", model_, "--memory", "auto"});
  const json run = RunJson({"-m", model_, "-p", "x", "-n", "2"});
  const double limit = run["memory"]["limit_bytes"];
  EXPECT_NEAR(plan["kv_memory_bytes"].get<double>(), limit, 0.1 * limit);
  EXPECT_GT(plan["headroom_bytes"], 0);
}

TEST_F(PlanTest, ModelsThatDoNotRunHereArePlannedFromTheirMetadata) {
  RawGguf foreign = MakeTinyGguf(ScenarioModel());
  foreign.SetKey(GgufU32Key("llama.expert_count", 8));
  const std::string path = WriteFile("experts.gguf", SerializeGguf(foreign));
  const json plan = PlanJson({"-m", path});
  EXPECT_THAT(plan["note"].get<std::string>(), HasSubstr("does not run"));
  EXPECT_EQ(plan["rows"][0]["bytes_per_token"],
            PlanJson({"-m", model_})["rows"][0]["bytes_per_token"]);
}

TEST_F(PlanTest, BadFilesAreOneSentence) {
  ExpectOneSentence(Plan({"-m", directory_.FilePath("absent.gguf")}), 1);
  ExpectOneSentence(Plan({"-m", WriteFile("empty.gguf", "")}), 1);
  ExpectOneSentence(Plan({"--config", directory_.FilePath("absent.json")}), 1);
  ExpectOneSentence(Plan({"--config", WriteFile("config.json", "{\"num_hidden_layers\": -3}")}), 1);
  ExpectOneSentence(Plan({"--config", WriteFile("large.json", std::string(2 << 20, ' '))}), 1);
  ExpectOneSentence(Plan({"--preset", "phi-4", "--prefix", "9000", "-c", "8192"}), 1);
  ExpectOneSentence(Plan({"--preset", "nonsense"}), 2);
  ExpectOneSentence(Plan({"--nonsense"}), 2);
}

}  // namespace
}  // namespace swiftkv
