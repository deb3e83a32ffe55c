// SPDX-License-Identifier: Apache-2.0
// Splits FORMAT=SHARE and compares formats by their bits.
#include "engine/kept_formats.h"

#include <fmt/format.h>

#include <charconv>

#include "base/status_macros.h"
#include "engine/engine_options.h"

namespace swiftkv {
namespace {

double BitsOf(const PageFormat& format) {
  return format.key->info().bits_per_value + format.value->info().bits_per_value;
}

}  // namespace

Result<std::optional<SmallerFormat>> ParseKeptAs(const std::string& text) {
  if (text == kKeptAsStored) return std::optional<SmallerFormat>();
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "kept tokens are kept as \"same\" or partly in a smaller format, FORMAT=SHARE, not: {}",
        text));
  }
  SmallerFormat smaller;
  SKV_ASSIGN_OR_RETURN(smaller.format, ParsePageFormat(text.substr(0, equals)));
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + equals + 1, end, smaller.share);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  if (is_number && smaller.share > 0 && smaller.share <= 1) return std::optional(smaller);
  return Status::InvalidArgument(
      fmt::format("the share of a format is a number above 0 and at most 1, not: {}", text));
}

bool IsSmaller(const PageFormat& smaller, const PageFormat& format) {
  return BitsOf(smaller) < BitsOf(format);
}

std::string CanonicalKeptAs(const SmallerFormat& smaller) {
  return fmt::format("{}={}", PageFormatName(smaller.format), smaller.share);
}

}  // namespace swiftkv
