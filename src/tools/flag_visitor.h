// SPDX-License-Identifier: Apache-2.0
// Registers option fields as flags of the command-line parser.
//
// Parsing writes into the visited options, which must outlive it. A value that does not parse
// leaves through CLI::ValidationError, whose text is the whole sentence; ParseArguments turns it
// into a Status.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/status.h"
#include "tools/flag_values.h"

namespace swiftkv {

class FlagVisitor {
 public:
  explicit FlagVisitor(CLI::App* app) : app_(app) {}

  // Heads the fields that follow in help.
  void Group(const char* name) { group_ = name; }

  // A switch. Flags that begin with "--no-" clear the field, others set it.
  void operator()(const OptionField& field, bool& value);

  template <typename T>
  void operator()(const OptionField& field, T& value) {
    Register(field, FormatFlagValue(value), [field, &value](const std::string& text) {
      return ParseFlagValue(field, text, &value);
    });
  }

  // A flag that may be given again; the first use replaces the defaults.
  template <typename T>
  void operator()(const OptionField& field, std::vector<T>& values) {
    auto seen = std::make_shared<bool>(false);
    RegisterList(field, FormatFlagValue(values), [field, &values, seen](const std::string& text) {
      if (!*seen) values.clear();
      *seen = true;
      T value{};
      const Status status = ParseFlagValue(field, text, &value);
      if (status.ok()) values.push_back(value);
      return status;
    });
  }

 private:
  using Parse = std::function<Status(const std::string&)>;

  void Register(const OptionField& field, const std::string& shown, const Parse& parse);
  void RegisterList(const OptionField& field, const std::string& shown, const Parse& parse);

  CLI::App* app_;
  std::string group_ = "Options";
};

// Parses what follows the subcommand's name. Errors: InvalidArgument; Cancelled with the help as
// its message where help was asked for.
Status ParseArguments(CLI::App* app, std::span<const char* const> arguments);

}  // namespace swiftkv
