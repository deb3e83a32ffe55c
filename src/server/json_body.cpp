// SPDX-License-Identifier: Apache-2.0
// Counts in one pass over the text, then lets the library parse it without exceptions.
#include "server/json_body.h"

#include <fmt/format.h>

#include <array>

#include "base/json_marks.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

// Counts what a parser would build, at most as far as it would come.
class BoundsCheck {
 public:
  Status Check(std::string_view text) {
    ForEachJsonMark(text, [this](char mark) {
      Count(mark);
      return status_.ok();
    });
    return status_;
  }

 private:
  struct Level {
    bool is_object = false;
    std::size_t parts = 1;
  };

  void Count(char mark) {
    if (mark == '[' || mark == '{') {
      if (depth_ == levels_.size()) {
        return Fail("the body may nest arrays and objects {} deep, not deeper", kMaxJsonDepth);
      }
      levels_[depth_++] = {.is_object = mark == '{'};
      ++elements_;
    } else if (mark != ',') {
      if (depth_ > 0) --depth_;
    } else if (depth_ > 0) {
      Level& level = levels_[depth_ - 1];
      ++elements_;
      if (++level.parts > kMaxJsonMembers && level.is_object) {
        return Fail("an object may have {} members, not more", kMaxJsonMembers);
      }
    }
    if (elements_ > kMaxJsonElements) {
      Fail("the body may have {} members and elements in all, not more", kMaxJsonElements);
    }
  }

  template <typename Number>
  void Fail(fmt::format_string<const Number&> sentence, const Number& most) {
    status_ = Status::InvalidArgument(fmt::format(sentence, most));
  }

  std::array<Level, kMaxJsonDepth> levels_;
  std::size_t depth_ = 0;
  std::size_t elements_ = 0;
  Status status_ = Status::Ok();
};

}  // namespace

Result<Json> ParseJsonBody(std::string_view body) {
  SKV_RETURN_IF_ERROR(BoundsCheck().Check(body));
  Json value = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Status::InvalidArgument(fmt::format(
        "the body must be one JSON object in UTF-8; these {} bytes are none", body.size()));
  }
  if (!value.is_object()) {
    return Status::InvalidArgument(
        fmt::format("the body must be a JSON object, not: {}", value.type_name()));
  }
  return value;
}

}  // namespace swiftkv
