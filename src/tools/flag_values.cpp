// SPDX-License-Identifier: Apache-2.0
// Parses whole values only: a number followed by anything else is refused.
#include "tools/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/byte_size.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

Status Refused(const OptionField& field, const std::string& accepts, const std::string& text) {
  return Status::InvalidArgument(fmt::format("{} accepts {}, got \"{}\"", FlagName(field), accepts,
                                             PrintableExcerpt(text, 60)));
}

template <typename Number>
bool ParseWhole(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end && !text.empty();
}

std::string Join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!joined.empty()) joined += ' ';
    joined += PrintableLine(part);
  }
  return joined;
}

// Returns what stands between the commas, empty parts included.
std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos;
       comma = text.find(',', start)) {
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

template <typename T>
void AddOnce(const T& value, std::vector<T>* values) {
  if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
}

}  // namespace

std::string FlagName(const OptionField& field) {
  const std::string_view flags = field.flags;
  const std::size_t start = flags.find("--");
  if (start == std::string_view::npos) return std::string(flags.substr(0, flags.find(',')));
  const std::size_t end = flags.find(',', start);
  return std::string(flags.substr(start, end == std::string_view::npos ? end : end - start));
}

std::string FlagHelp(const OptionField& field) {
  return field.choices == nullptr ? field.help : fmt::format("{}: {}", field.help, field.choices());
}

Status ParseFlagValue(const OptionField& field, const std::string& text, int* value) {
  std::int64_t number = 0;
  if (!ParseWhole(text, &number) || number < field.least || number > field.most) {
    return Refused(field, fmt::format("a whole number from {} to {}", field.least, field.most),
                   text);
  }
  *value = static_cast<int>(number);
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text, float* value) {
  if (!ParseWhole(text, value) || !std::isfinite(*value)) return Refused(field, "a number", text);
  return Status::Ok();
}

Status ParseFlagValue(const OptionField&, const std::string& text, std::string* value) {
  *value = text;
  return Status::Ok();
}

Status ParseFlagValue(const OptionField&, const std::string& text,
                      std::optional<std::string>* value) {
  *value = text;
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<std::uint64_t>* value) {
  std::uint64_t number = 0;
  if (!ParseWhole(text, &number)) return Refused(field, "a whole number from 0 to 2^64 - 1", text);
  *value = number;
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<double>* value) {
  double number = 0;
  if (!ParseWhole(text, &number) || !std::isfinite(number)) return Refused(field, "a number", text);
  *value = number;
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<Quality>* value) {
  for (const Quality level : {Quality::kExact, Quality::kNear, Quality::kAny}) {
    if (text != QualityName(level)) continue;
    *value = level;
    return Status::Ok();
  }
  return Refused(field, "exact, near or any", text);
}

Status ParseFlagValue(const OptionField& field, const std::string& text, MemoryLimit* value) {
  if (text == "auto") {
    *value = MemoryLimit{};
    return Status::Ok();
  }
  const Result<std::uint64_t> bytes = ParseByteSize(text);
  if (!bytes.ok() || *bytes == 0) {
    return Refused(field, "auto or a size such as 512MiB, 4G or 1073741824", text);
  }
  *value = {.automatic = false, .bytes = *bytes};
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text, LogitBias* value) {
  const std::string_view whole = text;
  const std::size_t equals = whole.find('=');
  const std::string_view bias =
      equals == std::string_view::npos ? std::string_view() : whole.substr(equals + 1);
  const bool is_biased = bias == "-inf"
                             ? (value->bias = -std::numeric_limits<float>::infinity(), true)
                             : ParseWhole(bias, &value->bias);
  if (!is_biased || !ParseWhole(whole.substr(0, equals), &value->token)) {
    return Refused(field, "TOKEN=BIAS with a token id and a number or -inf", text);
  }
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text, NumberList* value) {
  value->values.clear();
  for (const std::string& part : SplitAtCommas(text)) {
    int number = 0;
    if (!ParseFlagValue(field, part, &number).ok()) {
      return Refused(
          field,
          fmt::format("whole numbers from {} to {} with commas between", field.least, field.most),
          text);
    }
    AddOnce(number, &value->values);
  }
  return Status::Ok();
}

Status ParseFlagValue(const OptionField& field, const std::string& text, NameList* value) {
  value->names.clear();
  for (const std::string& part : SplitAtCommas(text)) {
    if (part.empty()) return Refused(field, "names with commas between", text);
    AddOnce(part, &value->names);
  }
  return Status::Ok();
}

std::string FormatFlagValue(bool value) { return value ? "true" : "false"; }
std::string FormatFlagValue(int value) { return fmt::format("{}", value); }
std::string FormatFlagValue(float value) { return fmt::format("{}", value); }
std::string FormatFlagValue(const std::string& value) { return value; }
std::string FormatFlagValue(const std::optional<std::string>& value) { return value.value_or(""); }

std::string FormatFlagValue(const std::optional<std::uint64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string FormatFlagValue(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string FormatFlagValue(const std::optional<Quality>& value) {
  return value ? QualityName(*value) : "";
}

std::string FormatFlagValue(const MemoryLimit& value) {
  return value.automatic ? "auto" : fmt::format("{}", value.bytes);
}

std::string FormatFlagValue(const NumberList& value) {
  return fmt::format("{}", fmt::join(value.values, ","));
}

std::string FormatFlagValue(const NameList& value) {
  return fmt::format("{}", fmt::join(value.names, ","));
}

std::string FormatFlagValue(const std::vector<std::string>& value) { return Join(value); }

std::string FormatFlagValue(const std::vector<LogitBias>& value) {
  std::vector<std::string> parts;
  for (const LogitBias& bias : value) parts.push_back(fmt::format("{}={}", bias.token, bias.bias));
  return Join(parts);
}

}  // namespace swiftkv
