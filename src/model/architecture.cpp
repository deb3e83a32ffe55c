// SPDX-License-Identifier: Apache-2.0
// Lists the model families.
#include "model/architecture.h"

#include <array>
#include <string>

#include "model/families.h"

namespace swiftkv {
namespace {

using Describer = Result<DecoderSpec> (*)(const GgufFile& file, const DecodeLimits& limits);

class Family final : public Architecture {
 public:
  constexpr Family(const char* name, const char* description, Describer describe)
      : name_(name), description_(description), describe_(describe) {}

  const char* name() const override { return name_; }
  const char* description() const override { return description_; }
  Result<DecoderSpec> Describe(const GgufFile& file, const DecodeLimits& limits) const override {
    return describe_(file, limits);
  }

 private:
  const char* name_;
  const char* description_;
  Describer describe_;
};

constexpr Family kFamilies[] = {
    {"llama", "Llama 2 and 3.x, SmolLM2, Mistral, TinyLlama", DescribeLlama},
    {"qwen2", "Qwen 2 and 2.5", DescribeQwen2},
    {"qwen3", "Qwen 3 (dense)", DescribeQwen3},
    {"gemma3", "Gemma 3 (text)", DescribeGemma3},
    {"phi3", "Phi 3, 3.5 and 4 (dense)", DescribePhi3},
};

constexpr std::array<const Architecture*, std::size(kFamilies)> kRows = [] {
  std::array<const Architecture*, std::size(kFamilies)> rows = {};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = &kFamilies[i];
  return rows;
}();

}  // namespace

std::span<const Architecture* const> AllArchitectures() { return kRows; }

Result<const Architecture*> FindArchitecture(std::string_view name) {
  std::string names;
  for (const Architecture* architecture : AllArchitectures()) {
    if (name == architecture->name()) return architecture;
    names += std::string(names.empty() ? "" : ", ") + architecture->name();
  }
  return Status::Unsupported("architectures supported are " + names + "; the model's is '" +
                             std::string(name) + "'");
}

}  // namespace swiftkv
