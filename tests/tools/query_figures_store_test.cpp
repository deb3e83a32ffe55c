// SPDX-License-Identifier: Apache-2.0
// Tests that query statistics come back as they were, and that hostile files are refused.
#include "tools/query_figures_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "model/fingerprint.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = "0123abcd";
constexpr std::size_t kDim = 4;

DecoderSpec Spec() {
  DecoderSpec spec;
  spec.head_dim = static_cast<int>(kDim);
  spec.layers.resize(3);
  for (DecoderLayerSpec& layer : spec.layers) layer.num_heads = 2;
  spec.layers[1].window = 8;
  return spec;
}

ModelQueryFigures Example() {
  ModelQueryFigures figures;
  figures.layers.resize(3);
  for (const std::size_t l : {std::size_t{0}, std::size_t{2}}) {
    LayerQueryFigures& layer = figures.layers[l];
    for (std::size_t i = 0; i < 2 * kDim; ++i) {
      layer.mean.push_back(static_cast<float>(i) - 2.5F);
    }
    layer.covariance.resize(2 * kDim * kDim);
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < kDim; ++i) {
        for (std::size_t j = 0; j < kDim; ++j) {
          layer.covariance[(head * kDim + i) * kDim + j] =
              i == j ? 3 : 0.1F * static_cast<float>(i + j + l);
        }
      }
    }
  }
  return figures;
}

class QueryFiguresStoreTest : public testing::Test {
 protected:
  std::string ReadFile() const {
    std::ifstream file(store_.PathOf(kModel), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Status LoadBytes(const std::string& bytes) const {
    EXPECT_TRUE(WriteBytes(store_.PathOf(kModel), bytes).ok());
    return store_.Load(kModel, Spec()).status();
  }

  // The file with another number at index `at`, and a digest that suits.
  std::string WithNumber(std::size_t at, float number) const {
    std::string body = ReadFile();
    body.resize(body.size() - 64);
    const std::size_t header = body.find('\n') + 1;
    std::memcpy(body.data() + header + at * sizeof(float), &number, sizeof(float));
    return body + TextFingerprint(body);
  }

  TempDirectory directory_;
  QueryFiguresStore store_{directory_.FilePath("calibration")};
};

TEST_F(QueryFiguresStoreTest, FiguresComeBackAsTheyWere) {
  const Result<ModelQueryFigures> saved = store_.Save(kModel, Spec(), Example());
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const Result<ModelQueryFigures> loaded = store_.Load(kModel, Spec());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->fingerprint, saved->fingerprint);
  EXPECT_EQ(loaded->fingerprint.size(), 64U);
  ASSERT_EQ(loaded->layers.size(), 3U);
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(loaded->layers[l].mean, Example().layers[l].mean);
    EXPECT_EQ(loaded->layers[l].covariance, Example().layers[l].covariance);
  }
}

TEST_F(QueryFiguresStoreTest, WhatWasNeverMeasuredIsNotFound) {
  EXPECT_EQ(store_.Load(kModel, Spec()).status().code(), StatusCode::kNotFound);
  const QueryFiguresStore nowhere("");
  EXPECT_TRUE(nowhere.Save(kModel, Spec(), Example()).ok());
  EXPECT_EQ(nowhere.Load(kModel, Spec()).status().code(), StatusCode::kNotFound);
}

TEST_F(QueryFiguresStoreTest, AnotherModelsOrShapesFileIsRefused) {
  ASSERT_TRUE(store_.Save(kModel, Spec(), Example()).ok());
  const std::string whole = ReadFile();
  ASSERT_TRUE(WriteBytes(store_.PathOf("ffff"), whole).ok());
  EXPECT_EQ(store_.Load("ffff", Spec()).status().code(), StatusCode::kDataLoss);
  DecoderSpec other = Spec();
  other.layers.resize(2);
  EXPECT_EQ(store_.Load(kModel, other).status().code(), StatusCode::kDataLoss);
  other = Spec();
  other.layers[0].num_heads = 4;
  EXPECT_EQ(store_.Load(kModel, other).status().code(), StatusCode::kDataLoss);
}

TEST_F(QueryFiguresStoreTest, CutLongAndChangedFilesAreRefused) {
  ASSERT_TRUE(store_.Save(kModel, Spec(), Example()).ok());
  const std::string whole = ReadFile();
  for (std::size_t cut = 0; cut < whole.size(); cut += 3) {
    EXPECT_EQ(LoadBytes(whole.substr(0, cut)).code(), StatusCode::kDataLoss) << cut;
  }
  EXPECT_EQ(LoadBytes(whole + "x").code(), StatusCode::kDataLoss);
  for (std::size_t at = 0; at < whole.size(); at += 11) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_EQ(LoadBytes(changed).code(), StatusCode::kDataLoss) << at;
  }
}

TEST_F(QueryFiguresStoreTest, NumbersThatNoQueriesHaveAreRefusedWhateverTheDigest) {
  ASSERT_TRUE(store_.Save(kModel, Spec(), Example()).ok());
  const std::string whole = ReadFile();
  constexpr std::size_t kFirstVariance = 2 * kDim;  // after the means of layer 0
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const std::vector<std::string> files = {
      WithNumber(0, kInfinite),
      WithNumber(0, std::nanf("")),
      WithNumber(0, -1e30F),
      WithNumber(kFirstVariance, -1),
      WithNumber(kFirstVariance, 1e30F),
      WithNumber(kFirstVariance + 1, 100),
      WithNumber(kFirstVariance + 1, std::nanf("")),
  };
  for (const std::string& file : files) {
    EXPECT_EQ(LoadBytes(file).code(), StatusCode::kDataLoss);
    EXPECT_THAT(LoadBytes(file).message(), HasSubstr("no statistics"));
  }
  EXPECT_TRUE(LoadBytes(whole).ok());
}

}  // namespace
}  // namespace swiftkv
