// SPDX-License-Identifier: Apache-2.0
// Reads the values of flags and writes them back, one overload for each type of option field.
//
// Errors are InvalidArgument: they name the flag, say what it accepts and end with what was given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns the long name by which messages call a field's flag: "--context".
std::string FlagName(const OptionField& field);

// Returns the field's help, with the words that it accepts where a table lists them.
std::string FlagHelp(const OptionField& field);

Status ParseFlagValue(const OptionField& field, const std::string& text, int* value);
Status ParseFlagValue(const OptionField& field, const std::string& text, float* value);
Status ParseFlagValue(const OptionField& field, const std::string& text, std::string* value);
Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<std::string>* value);
Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<std::uint64_t>* value);
Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<double>* value);
Status ParseFlagValue(const OptionField& field, const std::string& text,
                      std::optional<Quality>* value);
Status ParseFlagValue(const OptionField& field, const std::string& text, MemoryLimit* value);
Status ParseFlagValue(const OptionField& field, const std::string& text, LogitBias* value);
// Each number of a list lies in the field's range. A value that stands twice counts once.
Status ParseFlagValue(const OptionField& field, const std::string& text, NumberList* value);
Status ParseFlagValue(const OptionField& field, const std::string& text, NameList* value);

// Returns the text that gives the value back; empty where the field has none.
std::string FormatFlagValue(bool value);
std::string FormatFlagValue(int value);
std::string FormatFlagValue(float value);
std::string FormatFlagValue(const std::string& value);
std::string FormatFlagValue(const std::optional<std::string>& value);
std::string FormatFlagValue(const std::optional<std::uint64_t>& value);
std::string FormatFlagValue(const std::optional<double>& value);
std::string FormatFlagValue(const std::optional<Quality>& value);
std::string FormatFlagValue(const MemoryLimit& value);
std::string FormatFlagValue(const NumberList& value);
std::string FormatFlagValue(const NameList& value);
std::string FormatFlagValue(const std::vector<std::string>& value);
std::string FormatFlagValue(const std::vector<LogitBias>& value);

}  // namespace swiftkv
