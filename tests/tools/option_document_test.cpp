// SPDX-License-Identifier: Apache-2.0
// Keeps docs/options.md equal to what the options say of themselves.
//
// Run with SWIFTKV_UPDATE_DOCS=1 to write the file anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tools/bench_attention_options.h"
#include "tools/bench_capacity_options.h"
#include "tools/bench_engine_options.h"
#include "tools/bench_model_options.h"
#include "tools/bench_serve_options.h"
#include "tools/bench_waste_options.h"
#include "tools/eval_options.h"
#include "tools/flag_values.h"
#include "tools/inspect_options.h"
#include "tools/plan_options.h"
#include "tools/run_options.h"
#include "tools/serve_options.h"

namespace swiftkv {
namespace {

constexpr const char* kDocument = SWIFTKV_SOURCE_DIR "/docs/options.md";

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class DocumentVisitor {
 public:
  // Adds the options of a subcommand.
  template <typename Options>
  void Command(const char* name) {
    text_ += fmt::format("\n## `swiftkv {}`\n", name);
    Options options;
    VisitOptions(*this, options);
  }

  void Group(const char* name) {
    text_ +=
        fmt::format("\n### {}\n\n| flag | default | key | meaning |\n|---|---|---|---|\n", name);
  }

  template <typename T>
  void operator()(const OptionField& field, T& value) {
    std::string flags;
    std::istringstream names(field.flags);
    for (std::string name; std::getline(names, name, ',');) {
      if (!flags.empty()) flags += ", ";
      flags += fmt::format("`{}`", name);
    }
    if (*field.placeholder != '\0') flags += fmt::format(" {}", Escaped(field.placeholder));
    const bool is_switch = *field.placeholder == '\0';
    const std::string shown = is_switch ? "" : FormatFlagValue(value);
    text_ += fmt::format("| {} | {} | `{}` | {} |\n", flags,
                         shown.empty() ? "" : fmt::format("`{}`", Escaped(shown)), field.key,
                         Escaped(FlagHelp(field)));
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_ =
      "# Options\n\n"
      "Made from the options themselves by tests/tools/option_document_test.cpp; do not edit.\n"
      "With `--verbose` a subcommand logs all of its own at start, under their keys.\n";
};

// The columns of a line of a table.
int ColumnsOf(const std::string& line) {
  int bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++bars;
  }
  return bars - 1;
}

TEST(OptionDocumentTest, ListsEveryOptionAsTheProgramHasIt) {
  DocumentVisitor visitor;
  visitor.Command<RunOptions>("run");
  visitor.Command<ServeOptions>("serve");
  visitor.Command<PlanOptions>("plan");
  visitor.Command<EvalOptions>("eval");
  visitor.Command<InspectOptions>("inspect");
  visitor.Command<BenchAttentionOptions>("bench attention");
  visitor.Command<BenchCapacityOptions>("bench capacity");
  visitor.Command<BenchEngineOptions>("bench engine");
  visitor.Command<BenchModelOptions>("bench model");
  visitor.Command<BenchServeOptions>("bench serve");
  visitor.Command<BenchWasteOptions>("bench waste");
  if (std::getenv("SWIFTKV_UPDATE_DOCS") != nullptr) std::ofstream(kDocument) << visitor.text();
  std::ifstream file(kDocument);
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_EQ(document.str(), visitor.text()) << "SWIFTKV_UPDATE_DOCS=1 writes it anew";
  for (std::string line; std::getline(document, line);) {
    if (line.empty() || line[0] != '|') continue;
    EXPECT_EQ(ColumnsOf(line), 4) << line;
  }
}

struct BarredOptions {
  std::string either = "a|b";
};

template <typename Visitor>
void VisitOptions(Visitor& visit, BarredOptions& options) {
  visit(OptionField{"--either", "either", "A|B", "One | the other"}, options.either);
}

TEST(OptionDocumentTest, BarsInNamesOfValuesDefaultsAndMeaningsEndNoColumn) {
  DocumentVisitor visitor;
  visitor.Command<BarredOptions>("try");
  std::istringstream document(visitor.text());
  std::string line;
  while (line.find("--either") == std::string::npos) ASSERT_TRUE(std::getline(document, line));
  EXPECT_EQ(ColumnsOf(line), 4) << line;
  EXPECT_EQ(line.substr(0, 19), "| `--either` A\\|B |");
}

}  // namespace
}  // namespace swiftkv
