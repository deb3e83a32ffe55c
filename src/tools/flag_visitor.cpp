// SPDX-License-Identifier: Apache-2.0
// Binds fields to CLI11 options and rewords its errors as single sentences.
#include "tools/flag_visitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

void ParseOrThrow(const std::function<Status(const std::string&)>& parse,
                  const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const Status status = parse(value);
    if (!status.ok()) throw CLI::ValidationError(status.message());
  }
}

std::string Unexpected(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  const std::string first = rest.empty() ? "" : rest.front();
  return fmt::format("{} the options are listed by `{} --help`; got \"{}\"",
                     first.starts_with('-') ? "unknown option;" : "unexpected argument;",
                     app.get_name(), PrintableExcerpt(first, 60));
}

// CLI11 says "--context: 1 required TOKENS missing".
std::string MissingValue(const CLI::ParseError& error) {
  const std::string_view text = error.what();
  return fmt::format("a value must follow {}", text.substr(0, text.find(':')));
}

}  // namespace

void FlagVisitor::operator()(const OptionField& field, bool& value) {
  const bool meaning = !std::string_view(field.flags).starts_with("--no-");
  app_->add_flag_callback(
          field.flags, [&value, meaning] { value = meaning; }, FlagHelp(field))
      ->group(group_)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void FlagVisitor::Register(const OptionField& field, const std::string& shown, const Parse& parse) {
  CLI::Option* option = app_->add_option(
      field.flags,
      [parse](const CLI::results_t& values) {
        ParseOrThrow(parse, {values.back()});
        return true;
      },
      FlagHelp(field));
  option->type_name(field.placeholder)->group(group_);
  option->type_size(1)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!shown.empty()) option->default_str(shown);
}

void FlagVisitor::RegisterList(const OptionField& field, const std::string& shown,
                               const Parse& parse) {
  CLI::Option* option = app_->add_option(
      field.flags,
      [parse](const CLI::results_t& values) {
        ParseOrThrow(parse, values);
        return true;
      },
      FlagHelp(field));
  option->type_name(field.placeholder)->group(group_);
  option->type_size(1)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (!shown.empty()) option->default_str(shown);
}

Status ParseArguments(CLI::App* app, std::span<const char* const> arguments) {
  std::vector<std::string> reversed(arguments.begin(), arguments.end());
  std::reverse(reversed.begin(), reversed.end());
  try {
    app->parse(std::move(reversed));
    return Status::Ok();
  } catch (const CLI::CallForHelp&) {
    return Status::Cancelled(app->help());
  } catch (const CLI::ExtrasError&) {
    return Status::InvalidArgument(Unexpected(*app));
  } catch (const CLI::ArgumentMismatch& error) {
    return Status::InvalidArgument(MissingValue(error));
  } catch (const CLI::Error& error) {
    return Status::InvalidArgument(PrintableLine(error.what()));
  }
}

}  // namespace swiftkv
