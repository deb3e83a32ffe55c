// SPDX-License-Identifier: Apache-2.0
// Tests `inspect` on models that run, models that do not, and files that are no models.
#include "scenarios/run_scenario.h"
#include "support/real_models.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

class InspectTest : public RunScenario {
 protected:
  static ProcessOutcome Inspect(std::vector<std::string> arguments) {
    ProcessSpec spec;
    spec.arguments = {SwiftkvProgram(), "inspect"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  static json InspectJson(const std::string& path) {
    const ProcessOutcome outcome = Inspect({path, "--json", "--tensors"});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1);
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(InspectTest, EveryTinyFamilyIsDescribedAsItWasMadeAndLacksOnlyAVocabulary) {
  for (const TinyModel& model : TinyModels()) {
    SCOPED_TRACE(model.name);
    const json summary = InspectJson(WriteTinyGguf(model, directory_.path()).value());
    EXPECT_EQ(summary["runs"], false);
    EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("no vocabulary"));
    EXPECT_EQ(summary["architecture"], TinyFamilyName(model.family));
    EXPECT_EQ(summary["decoder"]["layers"], model.shape.layers);
    EXPECT_EQ(summary["decoder"]["head_dim"], model.shape.head_dim);
    EXPECT_EQ(summary["decoder"]["context_length"], model.shape.context);
    EXPECT_EQ(summary["tensors"].size(), MakeTinyGguf(model).tensors.size());
  }
}

TEST_F(InspectTest, BytesPerTokenAreThoseOfTheShape) {
  const json summary = InspectJson(model_);
  EXPECT_EQ(summary["runs"], true) << summary["reason"];
  for (const json& format : summary["kv"]) {
    const double values = 2 * 2 * 16 * 2;  // layers, KV heads, channels, K and V
    if (format["format"] == "f16" || format["format"] == "f32") {
      EXPECT_EQ(format["bytes_per_token"].get<double>(),
                values * format["bits_per_value"].get<double>() / 8);
    }
  }
}

TEST_F(InspectTest, ReadableFilesThatCannotRunSayWhy) {
  RawGguf foreign = MakeTinyGguf(ScenarioModel());
  foreign.SetKey(GgufStringKey("general.architecture", "mamba\n\x1b[2J"));
  const std::string path = WriteFile("foreign.gguf", SerializeGguf(foreign));
  const ProcessOutcome text = Inspect({path});
  EXPECT_EQ(text.exit_status, 0);
  EXPECT_THAT(text.output, HasSubstr("no: "));
  EXPECT_THAT(text.output, HasSubstr("qwen3"));
  EXPECT_EQ(text.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(InspectJson(path)["runs"], false);

  RawGguf incomplete = MakeTinyGguf(ScenarioModel());
  incomplete.RemoveTensor("blk.1.ffn_down.weight");
  const json summary = InspectJson(WriteFile("incomplete.gguf", SerializeGguf(incomplete)));
  EXPECT_EQ(summary["runs"], false);
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("blk.1.ffn_down.weight"));
}

TEST_F(InspectTest, DamagedFilesAreOneSentence) {
  const std::string whole = SerializeGguf(MakeTinyGguf(ScenarioModel()));
  ExpectOneSentence(Inspect({WriteFile("cut.gguf", whole.substr(0, whole.size() / 2))}), 1);
  ExpectOneSentence(Inspect({WriteFile("empty.gguf", "")}), 1);
  ExpectOneSentence(Inspect({directory_.FilePath("absent.gguf")}), 1);
  ExpectOneSentence(Inspect({"--nonsense"}), 2);
}

TEST_F(InspectTest, SplitModelsAreOneModel) {
  const auto paths = WriteTinySplit(ScenarioModel(), 3, directory_.path()).value();
  const json summary = InspectJson(paths.front());
  EXPECT_EQ(summary["files"], 3);
  EXPECT_EQ(summary["runs"], true) << summary["reason"];
}

TEST_F(InspectTest, TheRealModelsAreKnown) {
  const Result<std::string> path = RealModelFile(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const json summary = InspectJson(*path);
  EXPECT_EQ(summary["runs"], true);
  EXPECT_EQ(summary["kv"][0]["bytes_per_token"], 23040);
  EXPECT_THAT(summary["decoder"]["layer_groups"], SizeIs(1));
}

}  // namespace
}  // namespace swiftkv
