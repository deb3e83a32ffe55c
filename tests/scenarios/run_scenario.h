// SPDX-License-Identifier: Apache-2.0
// Runs the built program on a tiny model, as its users do.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/process_runner.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {

inline std::string SwiftkvProgram() { return SWIFTKV_BINARY_DIR "/swiftkv"; }

// A chat model with random weights and a context long enough for a reply that must be stopped.
inline TinyModel ScenarioModel() {
  TinyModel model;
  model.name = "scenario";
  model.shape.layers = 2;
  model.shape.context = 1 << 17;
  model.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  return model;
}

// Returns the object that a command with --json printed; fails the test unless it succeeded and the
// object is all that it printed, on one line.
inline nlohmann::json JsonOf(const ProcessOutcome& outcome) {
  EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
  return nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
}

class RunScenario : public testing::Test {
 protected:
  void SetUp() override {
    const Result<std::string> path = WriteTinyGguf(ScenarioModel(), directory_.path());
    ASSERT_TRUE(path.ok()) << path.status().message();
    model_ = *path;
  }

  // Writes a file beside the model and returns its path.
  std::string WriteFile(const std::string& name, const std::string& bytes) const {
    EXPECT_TRUE(WriteBytes(directory_.FilePath(name), bytes).ok());
    return directory_.FilePath(name);
  }

  // Returns how to run `swiftkv run` with the tiny model and these arguments.
  ProcessSpec Spec(std::vector<std::string> arguments) const {
    ProcessSpec spec;
    spec.arguments = {SwiftkvProgram(), "run"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    spec.environment["SWIFTKV_MODEL"] = model_;
    spec.environment["SWIFTKV_CACHE_DIR"] = directory_.FilePath("cache");
    return spec;
  }

  ProcessOutcome Run(std::vector<std::string> arguments, const std::string& input = "") const {
    ProcessSpec spec = Spec(std::move(arguments));
    spec.input = input;
    return RunProcess(spec);
  }

  // Adds --json and returns the object; fails the test unless it is the only line.
  nlohmann::json RunJson(std::vector<std::string> arguments, const std::string& input = "") const {
    arguments.push_back("--json");
    return JsonOf(Run(std::move(arguments), input));
  }

  TempDirectory directory_;
  std::string model_;
};

// Expects a failure that is told in one line on standard error.
inline void ExpectOneSentence(const ProcessOutcome& outcome, int exit_status) {
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_status, exit_status);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.error, testing::StartsWith("swiftkv"));
  EXPECT_EQ(outcome.error.find('\n'), outcome.error.size() - 1) << outcome.error;
}

}  // namespace swiftkv
