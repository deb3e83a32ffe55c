// SPDX-License-Identifier: Apache-2.0
// Holds the one table of model shapes, as their published config.json files state them.
#include "tools/plan_presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr bool kTied = true;  // the embedding is the output matrix
constexpr bool kOwn = false;

constexpr PlanShape::Latent kNoLatent = {};
constexpr PlanShape::Latent kLatent = {512, 64, 1536, 128, 128};
constexpr PlanShape::Latent kLatentLite = {512, 64, 0, 128, 128};

// name, layers, hidden, query heads, kv heads, head size, feed-forward, vocabulary, context,
// output; window, full layer every; {experts, their feed-forward, shared, dense layers}; latent;
// weights
constexpr std::array<PlanShape, 44> kPresets = {{
    // Llama 2 (Touvron et al. 2023); Llama 3.1, 3.2 and 3.3 (Meta 2024).
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096, kOwn},
    {"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096, kOwn},
    {"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096, kOwn},
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072, kOwn},
    {"llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072, kOwn},
    {"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, 131072, kOwn},
    {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072, kTied},
    {"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 131072, kTied},
    {"llama-3.3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072, kOwn},
    // Qwen2.5 (2024) and Qwen3 (2025), without the YaRN factor that their cards offer.
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768, kTied},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 32768, kTied},
    {"qwen2.5-3b", 36, 2048, 16, 2, 128, 11008, 151936, 32768, kTied},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768, kOwn},
    {"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064, 32768, kOwn},
    {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, 32768, kOwn},
    {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 32768, kOwn},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, kTied},
    {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, 40960, kTied},
    {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 40960, kTied},
    {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 40960, kOwn},
    {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, 40960, kOwn},
    {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 40960, kOwn},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936, 40960, kOwn, 0, 0, {128, 768, 0, 0}},
    {"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 12288, 151936, 40960, kOwn, 0, 0, {128, 1536, 0, 0}},
    // Mistral 7B v0.3 (2024) and Mixtral 8x7B (2023), both without a window.
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768, 32768, kOwn},
    {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, kOwn, 0, 0, {8, 14336, 0, 0}},
    // Gemma 3 (2025): five windowed layers, then a full one; without the vision tower.
    {"gemma-3-270m", 18, 640, 4, 1, 256, 2048, 262144, 32768, kTied, 512, 6},
    {"gemma-3-1b", 26, 1152, 4, 1, 256, 6912, 262144, 32768, kTied, 512, 6},
    {"gemma-3-4b", 34, 2560, 8, 4, 256, 10240, 262208, 131072, kTied, 1024, 6},
    {"gemma-3-12b", 48, 3840, 16, 8, 256, 15360, 262208, 131072, kTied, 1024, 6},
    {"gemma-3-27b", 62, 5376, 32, 16, 128, 21504, 262208, 131072, kTied, 1024, 6},
    // Phi-3 (2024, the variants for 128K), Phi-4 (2024) and Phi-4 mini (2025).
    {"phi-3-mini", 32, 3072, 32, 32, 96, 8192, 32064, 131072, kOwn},
    {"phi-3-medium", 40, 5120, 40, 10, 128, 17920, 32064, 131072, kOwn},
    {"phi-4", 40, 5120, 40, 10, 128, 17920, 100352, 16384, kOwn},
    {"phi-4-mini", 32, 3072, 24, 8, 128, 8192, 200064, 131072, kTied},
    // gpt-oss (OpenAI 2025): every other layer has a window; experts in MXFP4, the rest in bf16.
    {"gpt-oss-20b",
     24,
     2880,
     64,
     8,
     64,
     2880,
     201088,
     131072,
     kOwn,
     128,
     2,
     {32, 2880, 0, 0},
     kNoLatent,
     "mxfp4",
     5.26},
    {"gpt-oss-120b",
     36,
     2880,
     64,
     8,
     64,
     2880,
     201088,
     131072,
     kOwn,
     128,
     2,
     {128, 2880, 0, 0},
     kNoLatent,
     "mxfp4",
     4.47},
    // DeepSeek-V2, V3 (2024) and R1 (2025), without the layer that predicts a second token.
    {"deepseek-v2-lite",
     27,
     2048,
     16,
     16,
     192,
     10944,
     102400,
     163840,
     kOwn,
     0,
     0,
     {64, 1408, 2, 1},
     kLatentLite},
    {"deepseek-v2",
     60,
     5120,
     128,
     128,
     192,
     12288,
     102400,
     163840,
     kOwn,
     0,
     0,
     {160, 1536, 2, 1},
     kLatent},
    {"deepseek-v3",
     61,
     7168,
     128,
     128,
     192,
     18432,
     129280,
     163840,
     kOwn,
     0,
     0,
     {256, 2048, 1, 3},
     kLatent,
     "fp8",
     8},
    {"deepseek-r1",
     61,
     7168,
     128,
     128,
     192,
     18432,
     129280,
     163840,
     kOwn,
     0,
     0,
     {256, 2048, 1, 3},
     kLatent,
     "fp8",
     8},
    // SmolLM2 (Hugging Face 2024).
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, kTied},
    {"smollm2-360m", 32, 960, 15, 5, 64, 2560, 49152, 8192, kTied},
    {"smollm2-1.7b", 24, 2048, 32, 32, 64, 8192, 49152, 8192, kTied},
}};

bool EqualInAnyCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::span<const PlanShape> AllPlanPresets() { return kPresets; }

std::string PlanPresetNames() {
  std::string names;
  for (const PlanShape& preset : kPresets) {
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  return names;
}

Result<const PlanShape*> FindPlanPreset(std::string_view name) {
  for (const PlanShape& preset : kPresets) {
    if (EqualInAnyCase(name, preset.name)) return &preset;
  }
  return Status::InvalidArgument(fmt::format("--preset accepts {}, got \"{}\"", PlanPresetNames(),
                                             PrintableExcerpt(name, 60)));
}

}  // namespace swiftkv
