// SPDX-License-Identifier: Apache-2.0
// Holds every command that has a cache to --kv-memory: the kernel's count of the cache's mappings,
// looked at all the time while the command runs, never passes the bound.
#include <algorithm>
#include <atomic>
#include <thread>

#include "scenarios/run_scenario.h"
#include "support/sanitizers.h"
#include "tools/kernel_view.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1U << 20;

// Reads smaps of a process again and again.
class KvWatch {
 public:
  explicit KvWatch(int process_id)
      : thread_([this, folder = "/proc/" + std::to_string(process_id)] {
          while (!ended_) Look(folder);
        }) {}

  // Called when the process has ended.
  std::uint64_t most_bytes() {
    ended_ = true;
    thread_.join();
    return most_bytes_;
  }

 private:
  void Look(const std::string& folder) {
    const auto mappings = ReadMappings(folder);
    if (!mappings.ok()) return;  // it is being started, or has ended
    std::uint64_t bytes = 0;
    for (const ProcessMapping& mapping : *mappings) {
      const MappingKind kind = KindOf(mapping, {});
      if (kind != MappingKind::kPages && kind != MappingKind::kMetadata) continue;
      bytes += mapping.resident_bytes;
    }
    most_bytes_ = std::max(most_bytes_, bytes);
  }

  std::atomic<bool> ended_{false};
  std::uint64_t most_bytes_ = 0;
  std::thread thread_;
};

class KvMemoryTest : public RunScenario {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
    RunScenario::SetUp();
  }

  // Runs a command within a bound and returns its object; the kernel counted `most` at most.
  json Watch(std::vector<std::string> arguments, const std::string& bound, std::uint64_t* most) {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram()};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    spec.arguments.insert(spec.arguments.end(), {"--kv-memory", bound, "--json", "-t", "1"});
    RunningProcess process(spec);
    KvWatch watch(process.process_id());
    const ProcessOutcome outcome = process.Wait();
    *most = watch.most_bytes();
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    return json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }

  std::string Prompt(int words) const {
    std::string text;
    for (int i = 0; i < words; ++i) text += "word ";
    return WriteFile("prompt.txt", text);
  }
};

TEST_F(KvMemoryTest, RunStaysWithinAnyBoundUntilItIsFull) {
  const std::pair<const char*, std::uint64_t> bounds[] = {
      {"f16", 3 * kMiB}, {"int8", 2 * kMiB + 100000}, {"int4", kMiB + 4096}};
  for (const auto& [format, bound] : bounds) {
    SCOPED_TRACE(format);
    std::uint64_t most = 0;
    const json result =
        Watch({"run", "-f", Prompt(1200), "--raw", "--kv", format, "--temp", "1", "--ignore-eos"},
              std::to_string(bound), &most);
    EXPECT_EQ(result["finish_reason"], "length");
    EXPECT_LE(most, bound);
    EXPECT_GT(most, bound / 4 * 3) << "it was looked at while it was nearly full";
    EXPECT_LE(result["kv"]["peak_bytes"], bound);
    EXPECT_LE(result["memory"]["pages_resident_bytes"], bound);
    EXPECT_LE(result["kv"]["huge_page_bytes"], bound);
  }
}

TEST_F(KvMemoryTest, EvalHoldsAllItsCachesWithinOneBound) {
  std::uint64_t most = 0;
  const json one = Watch({"eval", "--formats", "f32,int8,int4"}, "64MiB", &most);
  EXPECT_EQ(one["passes"], 1);
  EXPECT_LE(most, 64 * kMiB);
  const json turns = Watch({"eval", "--formats", "f32,int8,int4"}, "3MiB", &most);
  EXPECT_GT(turns["passes"], 1);
  EXPECT_LE(most, 3 * kMiB);
  EXPECT_GT(most, kMiB);
  EXPECT_LE(turns["kv_peak_bytes"], 3 * kMiB);
  EXPECT_EQ(turns["rows"], one["rows"]) << "no figure depends on the bound";
}

TEST_F(KvMemoryTest, CalibratingForAnAutomaticFormatStaysWithinTheBoundOfTheRun) {
  std::uint64_t most = 0;
  const json result =
      Watch({"run", "-p", "hello", "-n", "5", "--kv", "auto", "--quiet"}, "4MiB", &most);
  EXPECT_EQ(result["kv"]["automatic"], true);
  EXPECT_LE(most, 4 * kMiB);
  EXPECT_GT(most, kMiB);
}

TEST_F(KvMemoryTest, ACalibrationThatDoesNotFitIsRefusedWithTheBound) {
  const ProcessOutcome outcome =
      Run({"-p", "hello", "--kv", "auto", "--kv-memory", "700KiB", "--quiet"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.error, HasSubstr("700 KiB"));
}

TEST_F(KvMemoryTest, GuidesAreMeasuredWithinTheBoundToo) {
  std::uint64_t most = 0;
  const json result = Watch({"run", "-p", "hello", "-n", "5", "--kv", "int8"}, "300KiB", &most);
  EXPECT_LE(most, 300U << 10);
  EXPECT_EQ(result["kv"]["format"], "int8");
}

TEST_F(KvMemoryTest, BenchModelStaysWithinItsBound) {
  std::uint64_t most = 0;
  Watch({"bench", "model", "--depths", "500,2000", "--batch", "3", "--shared", "100", "--rounds",
         "1", "--prefill", "64", "--decode", "4", "--formats", "f16,int4"},
        "5MiB", &most);
  EXPECT_LE(most, 5 * kMiB);
  EXPECT_GT(most, kMiB);
}

TEST_F(KvMemoryTest, InspectMemoryStaysWithinItsBound) {
  std::uint64_t most = 0;
  const json view = Watch({"inspect", "--memory", "--tokens", "9000"}, "3MiB", &most);
  EXPECT_LE(most, 3 * kMiB);
  EXPECT_GT(most, 2 * kMiB);
  EXPECT_LE(view["memory"]["peak_bytes"], 3 * kMiB);
}

}  // namespace
}  // namespace swiftkv
