// SPDX-License-Identifier: Apache-2.0
// Lays out bars, labels and a legend as SVG.
#include "tools/bench_waste_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace swiftkv {
namespace {

// Pixels.
constexpr int kWidth = 960;
constexpr int kMargin = 24;
constexpr int kBarLeft = 180;
constexpr int kBarWidth = 560;
constexpr int kBarHeight = 20;
constexpr int kBarPitch = 27;
constexpr int kNarrowest = 46;  // segment that its figure fits into

// Colours that people of every colour vision tell apart (Okabe and Ito).
struct Kind {
  const char* name;
  const char* meaning;
  double SlotShares::*share;
  const char* fill;
  const char* ink;  // of text on it
};
constexpr std::array<Kind, 4> kKinds = {{
    {"filled", "holds a token", &SlotShares::filled, "#0072b2", "#ffffff"},
    {"reserved", "for later tokens", &SlotShares::reserved, "#56b4e9", "#10202c"},
    {"internal", "never filled", &SlotShares::internal, "#e69f00", "#2b1d00"},
    {"external", "between requests", &SlotShares::external, "#c44e00", "#ffffff"},
}};

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

class Chart {
 public:
  Chart(const WasteBenchResult& result, const BenchWasteOptions& options)
      : result_(result), options_(options) {}

  std::string Draw() {
    Text(kMargin, "Where the memory of a KV cache goes", "font-size=\"20\" font-weight=\"600\"");
    y_ += 24;
    Text(kMargin,
         fmt::format("Shares of allocated token slots; {} requests at a time, {} lengths ({:.0f} "
                     "tokens in, {:.0f} out on average), {} steps",
                     options_.batch, options_.lengths, result_.mean_prompt, result_.mean_output,
                     result_.steps),
         kQuiet);
    y_ += 30;
    Legend();
    for (std::size_t i = 0; i < result_.rows.size(); ++i) {
      const WasteRow& row = result_.rows[i];
      const bool is_new = i == 0 || row.geometry != result_.rows[i - 1].geometry;
      if (is_new) Heading(row.geometry, "bytes wasted, all formats");
      if (is_new || row.allocator != result_.rows[i - 1].allocator) {
        Bar(row.allocator, row.slots, WastedBytes(row));
      }
    }
    if (!result_.block_sizes.empty()) {
      Heading("Paged, by tokens of a block (on paper)", "slots wasted");
      for (const BlockSizeRow& row : result_.block_sizes) {
        Bar(std::to_string(row.block_tokens), row.slots, Percent(row.slots.waste()));
      }
    }
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" role=\"img\" aria-label=\"Shares of allocated KV slots by allocator\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#1b1f24\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        kWidth, y_ + kMargin - kBarPitch / 2, body_);
  }

 private:
  static constexpr const char* kQuiet = "fill=\"#57606a\"";

  static std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

  // The range over the formats of the row's allocator and geometry.
  std::string WastedBytes(const WasteRow& row) const {
    double least = row.waste_bytes_fraction;
    double most = least;
    for (const WasteRow& other : result_.rows) {
      if (other.geometry != row.geometry || other.allocator != row.allocator) continue;
      least = std::min(least, other.waste_bytes_fraction);
      most = std::max(most, other.waste_bytes_fraction);
    }
    if (Percent(least) == Percent(most)) return Percent(most);
    return fmt::format("{:.1f} to {}", 100 * least, Percent(most));
  }

  void Text(double x, std::string_view text, std::string_view attributes) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", x, y_ + 14, attributes,
                         Escaped(text));
  }

  void Legend() {
    int x = kMargin;
    for (const Kind& kind : kKinds) {
      body_ +=
          fmt::format("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"2\" fill=\"{}\"/>\n",
                      x, y_ + 3, kind.fill);
      Text(x + 20, fmt::format("{}: {}", kind.name, kind.meaning), "");
      x += 228;
    }
    y_ += 14;
  }

  void Heading(std::string_view left, std::string_view right) {
    y_ += 26;
    Text(kMargin, left, "font-weight=\"600\"");
    Text(kBarLeft + kBarWidth + 14, right, kQuiet);
    y_ += kBarPitch;
  }

  void Bar(std::string_view label, const SlotShares& slots, std::string_view figure) {
    Text(kBarLeft - 10, label, "text-anchor=\"end\"");
    double left = kBarLeft;
    for (const Kind& kind : kKinds) {
      const double share = slots.*kind.share;
      const double width = share * kBarWidth;
      if (width <= 0) continue;
      body_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\">"
          "<title>{} {}</title></rect>\n",
          left, y_, width, kBarHeight, kind.fill, kind.name, Percent(share));
      if (width >= kNarrowest) {
        Text(left + width / 2, Percent(share),
             fmt::format("text-anchor=\"middle\" fill=\"{}\"", kind.ink));
      }
      left += width;
    }
    Text(kBarLeft + kBarWidth + 14, figure, "");
    y_ += kBarPitch;
  }

  const WasteBenchResult& result_;
  const BenchWasteOptions& options_;
  std::string body_;
  int y_ = kMargin;  // top of the next line
};

}  // namespace

std::string WasteBenchSvg(const WasteBenchResult& result, const BenchWasteOptions& options) {
  return Chart(result, options).Draw();
}

}  // namespace swiftkv
