// SPDX-License-Identifier: Apache-2.0
// Runs `eval`, and `run` with what `eval` found, on tiny models.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/page_format_table.h"
#include "scenarios/run_scenario.h"
#include "support/llama_oracle.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class EvalTest : public RunScenario {
 protected:
  ProcessSpec CommandSpec(const std::string& command, std::vector<std::string> arguments) const {
    ProcessSpec spec;
    spec.arguments = {SwiftkvProgram(), command};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    spec.environment["SWIFTKV_MODEL"] = model_;
    spec.environment["SWIFTKV_CACHE_DIR"] = directory_.FilePath("cache");
    spec.environment["TMPDIR"] = directory_.path().string();
    return spec;
  }

  ProcessOutcome Command(const std::string& command, std::vector<std::string> arguments) const {
    return RunProcess(CommandSpec(command, std::move(arguments)));
  }

  json EvalJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const ProcessOutcome outcome = Command("eval", std::move(arguments));
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }

  // One short reply with pages in `format`.
  ProcessOutcome Reply(const std::string& format, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"-p", "x",      "-n", "4",    "--temp",
                                          "0",  "--json", "-q", "--kv", format};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Command("run", std::move(arguments));
  }

  // The one file of kept figures.
  std::string KeptFile() const {
    const std::filesystem::path folder = directory_.path() / "cache" / "calibration";
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      return entry.path().string();
    }
    return "";
  }

  // Changes the kept loss of a format.
  void SetKeptLoss(const std::string& format, double mean_kld) const {
    std::ifstream in(KeptFile());
    json kept = json::parse(in);
    for (json& row : kept["rows"]) {
      if (row["format"] == format) row["mean_kld"] = mean_kld;
    }
    std::ofstream(KeptFile()) << kept;
  }

  // Makes the model's weights rounded ones.
  void RoundWeights() {
    const std::string rounded = directory_.FilePath("q8.gguf");
    ASSERT_TRUE(RewriteWeights(model_, rounded, OracleWeights::kQ8_0).ok());
    model_ = rounded;
  }
};

TEST_F(EvalTest, EveryNamedFormatHasARowWithEveryKey) {
  const json object = EvalJson({});
  EXPECT_EQ(object["weights"], "f16");
  EXPECT_EQ(object["text"], "calibration");
  EXPECT_EQ(object["context"], 2048);
  EXPECT_GT(object["windows"], 0);
  ASSERT_EQ(object["rows"].size(), AllPageFormats().size());
  EXPECT_EQ(object["rows"][0]["format"], "f16");
  for (const json& row : object["rows"]) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row["policy"], "none");
    EXPECT_EQ(row["ratio"], 0.0);
    EXPECT_GT(row["bytes"], 0);
    EXPECT_GT(row["bits_per_value"], 4.0);
    EXPECT_GE(row["p99_kld"], row["mean_kld"]);
    EXPECT_LT(row["mean_kld"], 0.1);
    EXPECT_GT(row["same_top1"], 0.5);
    EXPECT_GT(row["ppl"], 1.0);
    EXPECT_TRUE(row["needle_nll"].is_null());
  }
  EXPECT_EQ(object["noise_floor"], object["rows"][0]["mean_kld"]);
}

TEST_F(EvalTest, TheTableShowsTheSameRowsToPeople) {
  const ProcessOutcome outcome = Command("eval", {"-c", "256"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  for (const NamedPageFormat& row : AllPageFormats()) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string("\n") + row.name + " "));
  }
  EXPECT_THAT(outcome.output, HasSubstr("windows of 256 tokens"));
}

TEST_F(EvalTest, OnlyFiguresOfTheDefaultMeasurementAreKept) {
  const std::string text = WriteFile("text.txt", std::string(3000, 'a') + "\n");
  const json object = EvalJson({"--text", text, "--formats", "int8"});
  EXPECT_EQ(object["text"], text);
  EXPECT_EQ(object["rows"].size(), 2U);
  EvalJson({"-c", "256", "--formats", "int8"});
  EvalJson({"--chunk", "17", "--formats", "int8"});
  EXPECT_EQ(KeptFile(), "");
  EvalJson({"--formats", "int8"});
  EXPECT_NE(KeptFile(), "");
}

TEST_F(EvalTest, PairsOfTwoFormatsAreMeasuredByTheirName) {
  const json object = EvalJson({"-c", "256", "--formats", "fp8_e4m3/int8,int8/int4"});
  EXPECT_EQ(object["rows"][1]["format"], "fp8_e4m3/int8");
  EXPECT_EQ(object["rows"][2]["format"], "k8v4");
}

TEST_F(EvalTest, WhatCannotBeMeasuredIsOneSentence) {
  ExpectOneSentence(Command("eval", {"--formats", "q4_0"}), 2);
  ExpectOneSentence(Command("eval", {"--text", directory_.FilePath("absent.txt")}), 1);
  ExpectOneSentence(Command("eval", {"--text", WriteFile("short.txt", "a")}), 1);
  ExpectOneSentence(Command("eval", {"-m", directory_.FilePath("absent.gguf")}), 1);
  ExpectOneSentence(Command("eval", {"-c", "1000000"}), 1);
}

TEST_F(EvalTest, RoundedWeightsAreRewrittenAndLeaveNothingBehind) {
  ASSERT_NO_FATAL_FAILURE(RoundWeights());
  EXPECT_EQ(EvalJson({"-c", "256"})["weights"], "f16");
  EXPECT_EQ(EvalJson({"-c", "256", "--weights", "asis"})["weights"], "asis");
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_EQ(entry.path().string().find("swiftkv-f16"), std::string::npos) << entry.path();
  }
}

TEST_F(EvalTest, WithoutAFolderForTheF16WeightsTheyAreTakenAsTheyAre) {
  ASSERT_NO_FATAL_FAILURE(RoundWeights());
  ProcessSpec spec = CommandSpec("eval", {"-c", "256", "--formats", "int8"});
  spec.environment["TMPDIR"] = directory_.FilePath("absent");
  const ProcessOutcome outcome = RunProcess(spec);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("weights asis: "));
  spec.arguments.insert(spec.arguments.end(), {"--weights", "f16"});
  const ProcessOutcome refused = RunProcess(spec);
  ExpectOneSentence(refused, 1);
  EXPECT_THAT(refused.error, HasSubstr("absent"));
}

TEST_F(EvalTest, CtrlCEndsItAtOnceAndLeavesNothingBehind) {
  ASSERT_NO_FATAL_FAILURE(RoundWeights());
  std::string words;
  for (int i = 0; i < 200000; ++i) words += "word ";
  std::filesystem::create_directory(directory_.path() / "temporary");
  ProcessSpec spec = CommandSpec("eval", {"--text", WriteFile("long.txt", words), "-v"});
  spec.environment["TMPDIR"] = directory_.FilePath("temporary");
  RunningProcess process(spec);
  ASSERT_TRUE(process.WaitForError("options"));
  process.Signal(SIGINT);
  const ProcessOutcome outcome = process.Wait();
  EXPECT_EQ(outcome.exit_status, 130);
  EXPECT_EQ(outcome.output, "");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "temporary"));
  EXPECT_EQ(KeptFile(), "");
}

TEST_F(EvalTest, AutoMeasuresOnceAndThenKnows) {
  const ProcessOutcome first = Reply("auto");
  EXPECT_EQ(first.exit_status, 0) << first.error;
  EXPECT_THAT(first.error, HasSubstr("measuring took"));
  const ProcessOutcome second = Reply("auto");
  EXPECT_EQ(second.error, "");
  const json kv = json::parse(second.output)["kv"];
  EXPECT_EQ(kv["automatic"], true);
  EXPECT_LT(kv["mean_kld"], 0.01);
  EXPECT_EQ(kv["format"], json::parse(first.output)["kv"]["format"]);
  EXPECT_NE(kv["format"], "f16");
}

TEST_F(EvalTest, AutoTakesF16WhereEverythingElseIsRuinous) {
  EvalJson({});
  for (const NamedPageFormat& row : AllPageFormats()) {
    if (std::strcmp(row.name, "f16") != 0) SetKeptLoss(row.name, 0.5);
  }
  EXPECT_EQ(json::parse(Reply("auto").output)["kv"]["format"], "f16");
}

TEST_F(EvalTest, AFormatNeverMeasuredIsToldInOneSentenceAndUsed) {
  const ProcessOutcome outcome = Reply("int8");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.error, HasSubstr("swiftkv eval"));
  EXPECT_EQ(outcome.error.find('\n'), outcome.error.size() - 1);
  EXPECT_EQ(json::parse(outcome.output)["kv"]["format"], "int8");
  EXPECT_TRUE(json::parse(outcome.output)["kv"]["mean_kld"].is_null());
  EXPECT_EQ(KeptFile(), "") << "nothing is measured unasked";
  for (const char* wide : {"f16", "bf16", "f32"}) EXPECT_EQ(Reply(wide).error, "");
}

TEST_F(EvalTest, KnownLossesAreSilentToldOrRefused) {
  EvalJson({"--formats", "int8"});
  SetKeptLoss("int8", 0.001);
  EXPECT_EQ(Reply("int8").error, "");
  SetKeptLoss("int8", 0.05);
  const ProcessOutcome told = Reply("int8");
  EXPECT_EQ(told.exit_status, 0);
  EXPECT_THAT(told.error, HasSubstr("0.05"));
  SetKeptLoss("int8", 0.5);
  const ProcessOutcome refused = Reply("int8");
  ExpectOneSentence(refused, 1);
  EXPECT_THAT(refused.error, HasSubstr("0.5"));
  EXPECT_THAT(refused.error, HasSubstr("--force"));
  EXPECT_EQ(Reply("int8", {"--force"}).exit_status, 0);
}

TEST_F(EvalTest, DamagedFiguresCountAsNone) {
  EvalJson({"--formats", "int8"});
  ASSERT_TRUE(WriteBytes(KeptFile(), "{\"version\": 1").ok());
  EXPECT_THAT(Reply("int8").error, HasSubstr("not known"));
  EXPECT_THAT(Reply("int8", {"-v"}).error, HasSubstr("damaged"));
}

// Keys of the Qwen2 family carry a bias that dwarfs everything else. What that does to a format is
// either little, or told.
TEST_F(EvalTest, AHugeKeyBiasIsEitherHarmlessOrTold) {
  TinyModel tiny;
  tiny.name = "biased";
  tiny.family = TinyFamily::kQwen2;
  tiny.shape = {.layers = 7,
                .embedding = 128,
                .query_heads = 2,
                .kv_heads = 1,
                .head_dim = 64,
                .context = 4096};
  tiny.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  RawGguf gguf = MakeTinyGguf(tiny);
  for (int layer = 0; layer < tiny.shape.layers; ++layer) {
    std::string& data = gguf.Tensor("blk." + std::to_string(layer) + ".attn_k.bias").data;
    const float bias = 500;
    std::memcpy(data.data() + 5 * sizeof(float), &bias, sizeof(bias));
  }
  model_ = WriteFile("biased.gguf", SerializeGguf(gguf));
  int told = 0;
  const json object = EvalJson({});
  for (const json& row : object["rows"]) {
    SCOPED_TRACE(row.dump());
    const std::string format = row["format"];
    const double loss = row["mean_kld"].is_null() ? 1e9 : row["mean_kld"].get<double>();
    if (format == "f16" || format == "f32" || format == "bf16") continue;
    const ProcessOutcome outcome = Reply(format);
    EXPECT_EQ(outcome.exit_status, loss > 0.1 ? 1 : 0);
    EXPECT_EQ(outcome.error.empty(), loss <= 0.01) << outcome.error;
    if (!outcome.error.empty()) ++told;
  }
  EXPECT_GT(told, 0) << "the bias does no harm: the test shows nothing";
}

}  // namespace
}  // namespace swiftkv
