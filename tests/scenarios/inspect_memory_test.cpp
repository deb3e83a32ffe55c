// SPDX-License-Identifier: Apache-2.0
// Tests `inspect --memory`: what is counted against what the kernel counts, and processes that
// cannot be looked at.
#include <csignal>
#include <cstdlib>

#include "scenarios/run_scenario.h"
#include "support/real_models.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class InspectMemoryTest : public RunScenario {
 protected:
  ProcessOutcome Inspect(std::vector<std::string> arguments) const {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "inspect", "--memory"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  json InspectJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const ProcessOutcome outcome = Inspect(std::move(arguments));
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1);
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }
};

std::uint64_t Sum(const json& object, std::initializer_list<const char*> keys) {
  std::uint64_t sum = 0;
  for (const char* key : keys) sum += object[key].get<std::uint64_t>();
  return sum;
}

void ExpectWhole(const json& view) {
  const json& memory = view["memory"];
  EXPECT_EQ(Sum(memory, {"live_private_bytes", "live_shared_bytes", "cached_bytes", "free_bytes",
                         "metadata_bytes"}),
            memory["mapped_bytes"]);
  const json& counted = view["counted"];
  EXPECT_EQ(Sum(counted, {"kv_pages_bytes", "kv_metadata_bytes"}) +
                counted["heap"]["kv_metadata_bytes"].get<std::uint64_t>(),
            memory["mapped_bytes"])
      << "every byte that is charged has a place";
  EXPECT_EQ(view["kernel"]["kv_pages"]["resident_bytes"], counted["kv_pages_bytes"]);
  EXPECT_EQ(view["kernel"]["kv_metadata"]["resident_bytes"], counted["kv_metadata_bytes"]);
  EXPECT_EQ(view["difference"]["kv_pages_bytes"], 0);
  EXPECT_LE(view["kernel"]["kv_pages"]["huge_page_bytes"],
            view["kernel"]["kv_pages"]["resident_bytes"]);
  EXPECT_EQ(view["kv"]["huge_page_bytes"], view["kernel"]["kv_pages"]["huge_page_bytes"]);
  std::uint64_t resident = 0;
  for (const auto& kind : view["kernel"].items()) {
    resident += kind.value()["resident_bytes"].get<std::uint64_t>();
  }
  const auto process = view["process"]["resident_bytes"].get<double>();
  EXPECT_NEAR(static_cast<double>(resident), process, 0.02 * process + (2 << 20))
      << "no mapping is missing";
  const json& automatic = view["automatic"];
  EXPECT_EQ(Sum(automatic, {"weights_bytes", "activation_bytes", "headroom_bytes", "bytes"}),
            automatic["available_bytes"]);
}

TEST_F(InspectMemoryTest, WhatIsCountedIsWhatTheKernelCountsInEveryFormat) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
  for (const char* format : {"f16", "f32", "int8", "int4", "fp8_e4m3"}) {
    SCOPED_TRACE(format);
    const json view = InspectJson({"--tokens", "700", "--kv", format, "--kv-memory", "5MiB"});
    ExpectWhole(view);
    EXPECT_EQ(view["kv"]["logical_tokens"], 700);
    EXPECT_EQ(view["memory"]["limit_bytes"], 5 << 20);
    EXPECT_LE(view["memory"]["peak_bytes"], 5 << 20);
    const bool guided = format[0] != 'f' || format[1] == 'p';  // formats with scales
    EXPECT_EQ(view["memory"]["key_guide_bytes"], guided ? 2 * 2 * (16 * 16 + 16) * 4 : 0);
  }
}

TEST_F(InspectMemoryTest, ModelsWithWindowsAreWholeToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
  TinyModel model = ScenarioModel();
  model.name = "windows";
  model.family = TinyFamily::kGemma3;
  model.shape.layers = 7;
  const std::string path = WriteTinyGguf(model, directory_.path()).value();
  ExpectWhole(InspectJson({path, "--tokens", "900"}));
}

TEST_F(InspectMemoryTest, RealModelsHaveANameForNearlyEverythingOnTheHeap) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer brings its own allocator";
  for (const RealModel model : {RealModel::kSmolLm2, RealModel::kGemma3}) {
    const Result<std::string> path = RealModelFile(model);
    if (!path.ok()) GTEST_SKIP() << path.status().message();
    SCOPED_TRACE(*path);
    // Kernels that oneDNN generates have no name: how many depends on what a load measures.
    const json view = InspectJson(
        {*path, "--tokens", "1100", "--chunk", "512", "-c", "1200", "--linear", "ggml"});
    ExpectWhole(view);
    const auto heap = view["counted"]["heap_bytes"].get<double>();
    EXPECT_LT(std::abs(view["difference"]["heap_bytes"].get<double>()), 0.15 * heap);
    EXPECT_LT(view["counted"]["heap"]["other_bytes"].get<double>(), 0.15 * heap);
    EXPECT_LT(std::abs(view["difference"]["weights_bytes"].get<double>()), 1 << 20);
    const auto activations = view["memory"]["activation_bytes"].get<double>();
    EXPECT_GT(view["memory"]["touched_activation_bytes"].get<double>(), 0.5 * activations);
  }
}

TEST_F(InspectMemoryTest, PeopleGetTables) {
  const ProcessOutcome outcome = Inspect({"--tokens", "100"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  for (const char* word : {"KV pages", "KV metadata", "weights", "heap", "program", "cgroup",
                           "machine", "activations", "--kv-memory auto gives", "none"}) {
    EXPECT_THAT(outcome.output, HasSubstr(word));
  }
}

TEST_F(InspectMemoryTest, ARunningProcessShowsItsKernelSide) {
  ProcessSpec spec = Spec({"-i", "--quiet"});
  spec.keep_input_open = true;
  spec.input = "hello\n";
  RunningProcess chat(spec);
  ASSERT_TRUE(chat.WaitForOutputBytes(1));
  const json view = InspectJson({"--pid", std::to_string(chat.process_id())});
  EXPECT_EQ(view["process"]["pid"], chat.process_id());
  EXPECT_EQ(view["process"]["name"], "swiftkv");
  EXPECT_GT(view["kernel"]["kv_pages"]["resident_bytes"], 0);
  EXPECT_GT(view["kernel"]["kv_metadata"]["resident_bytes"], 0);
  EXPECT_GT(view["kernel"]["weights"]["resident_bytes"], 0);
  EXPECT_FALSE(view.contains("counted"));
  chat.Signal(SIGINT);
  chat.CloseInput();
  chat.Wait();
}

TEST_F(InspectMemoryTest, WhatCannotBeInspectedIsOneSentence) {
  const ProcessOutcome gone = Inspect({"--pid", "999999999"});
  ExpectOneSentence(gone, 1);
  EXPECT_THAT(gone.error, HasSubstr("999999999"));
  ExpectOneSentence(Inspect({"--pid", "2"}), 1);  // the kernel's own, or none in a container
  ExpectOneSentence(Inspect({"--pid", "-3"}), 2);
  ExpectOneSentence(Inspect({"--pid", "x"}), 2);
  ExpectOneSentence(Inspect({"--pid", "1", model_}), 2);
  ExpectOneSentence(Inspect({"--kv", "int9"}), 2);
  ExpectOneSentence(Inspect({"--tokens", "200", "-c", "100"}), 1);
  ExpectOneSentence(Inspect({"--tokens", "3000", "--kv-memory", "64KiB"}), 1);
  ExpectOneSentence(Inspect({directory_.FilePath("absent.gguf")}), 1);
  ProcessSpec spec = Spec({});
  spec.arguments = {SwiftkvProgram(), "inspect", "--tokens", "5", model_};
  ExpectOneSentence(RunProcess(spec), 2);
  spec.arguments = {SwiftkvProgram(), "inspect", "--pid", "5"};
  ExpectOneSentence(RunProcess(spec), 2);
}

}  // namespace
}  // namespace swiftkv
