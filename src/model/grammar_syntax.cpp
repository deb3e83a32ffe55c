// SPDX-License-Identifier: Apache-2.0
// Walks GBNF by recursive descent, building nothing but the lists of rules defined and used.
#include "model/grammar_syntax.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "base/utf8.h"

namespace swiftkv {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-';
}
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxRepeatedBytes = 1U << 22;  // of an item, written out

// The size of an item as the library will write it out for a repetition; no rules for one that is
// left out.
struct Repeated {
  std::uint64_t rules = 1;
  std::uint64_t length = 1;  // bytes of its text; a group becomes one reference
};

class Checker {
 public:
  Checker(std::string_view text, const Vocabulary& vocabulary)
      : text_(text), vocabulary_(vocabulary) {}

  Status Run() {
    SkipSpace(true);
    while (!AtEnd() && Rule()) {
    }
    if (!error_.empty()) return Error(error_);
    for (const auto& name : used_) {
      if (!defined_.contains(name)) return Error("no rule defines '" + name + "'");
    }
    if (!defined_.contains("root")) return Error("no rule is named 'root'");
    return Status::Ok();
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (Peek() != c || AtEnd()) return false;
    ++at_;
    return true;
  }

  std::uint64_t SymbolCount() const { return symbols_.size() + generated_; }

  // Notes the first problem; returns false, so that callers can return it.
  bool Fail(const std::string& what) {
    if (error_.empty()) {
      const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
      error_ = what + " in line " + std::to_string(line);
    }
    return false;
  }

  Status Error(const std::string& what) const {
    return Status::InvalidArgument("the grammar must be GBNF with a rule `root`: " + what);
  }

  void SkipSpace(bool over_lines) {
    for (; !AtEnd(); ++at_) {
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\n' && Peek() != '\r') ++at_;
        if (AtEnd()) return;
        --at_;  // the line's end is looked at next
      } else if (c != ' ' && c != '\t' && !(over_lines && (c == '\n' || c == '\r'))) {
        return;
      }
    }
  }

  std::string Name() {
    const std::size_t begin = at_;
    while (IsWord(Peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool Rule() {
    const std::string name = Name();
    if (name.empty()) return Fail("a rule must start with its name");
    SkipSpace(false);
    if (text_.substr(at_, 3) != "::=") return Fail("'::=' must follow the name '" + name + "'");
    at_ += 3;
    SkipSpace(true);
    defined_.insert(name);
    symbols_.insert(name);
    if (!Alternatives(false)) return false;
    if (!AtEnd() && Peek() != '\n' && Peek() != '\r') {
      return Fail(std::string("unexpected '") + Peek() + "'");
    }
    SkipSpace(true);
    return true;
  }

  bool Alternatives(bool nested) {
    for (;;) {
      if (!Sequence(nested)) return false;
      if (Peek() != '|') return true;
      ++at_;
      SkipSpace(true);
    }
  }

  bool Sequence(bool nested) {
    Repeated item;
    bool has_item = false;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!has_item) return Fail(std::string("an item must come before '") + c + "'");
        if (!Repetition(nested, &item)) return false;
        has_item = item.rules > 0;
      } else {
        const std::size_t begin = at_;
        const std::uint64_t symbols = SymbolCount();
        bool is_item = false;
        if (!Item(&is_item)) return false;
        if (!is_item) break;
        // "" and [] are written out to nothing, which nothing can repeat.
        const std::string_view text = text_.substr(begin, at_ - begin);
        has_item = text != "\"\"" && text != "[]" && text != "[^]";
        const bool is_group = c == '(';
        item = {is_group ? std::max<std::uint64_t>(1, SymbolCount() - symbols) : 1,
                is_group ? 1 : at_ - begin};
      }
      SkipSpace(nested);
    }
    return true;
  }

  bool Item(bool* is_item) {
    const char c = Peek();
    *is_item = true;
    if (c == '"') return Characters('"', 1);
    if (c == '[') return Characters(']', text_.substr(at_, 2) == "[^" ? 2 : 1);
    if (c == '<' || c == '!') return Token();
    if (c == '(') return Group();
    if (c == '.') {
      ++at_;
      return true;
    }
    if (IsWord(c)) {
      const std::string name = Name();
      symbols_.insert(name);
      used_.insert(name);
      return true;
    }
    *is_item = false;
    return true;
  }

  bool Group() {
    if (++depth_ > kMaxGrammarNesting) {
      return Fail("parentheses may nest " + std::to_string(kMaxGrammarNesting) +
                  " deep, not more,");
    }
    ++at_;
    ++generated_;
    SkipSpace(true);
    if (!Alternatives(true)) return false;
    if (!Take(')')) return Fail("')' is missing");
    --depth_;
    return true;
  }

  // Takes characters up to `end`, after `opening` bytes.
  bool Characters(char end, std::size_t opening) {
    at_ += opening;
    const bool is_class = end == ']';
    while (Peek() != end) {
      if (AtEnd()) return Fail(std::string("'") + end + "' is missing");
      if (!Character()) return false;
      const bool is_range = is_class && Peek() == '-' && text_.substr(at_, 2) != "-]";
      if (!is_range) continue;
      ++at_;
      if (AtEnd()) return Fail("a range must end");
      if (!Character()) return false;
    }
    ++at_;
    return true;
  }

  bool Character() {
    if (!Take('\\')) {
      ++at_;  // other bytes of a character follow as characters of their own
      return true;
    }
    const char c = Peek();
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 &&
        (AtEnd() || std::string_view("trn\\\"[]-").find(c) == std::string_view::npos)) {
      return Fail(
          "an escape must be one of \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH");
    }
    ++at_;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      if (!IsHex(Peek())) return Fail("an escape needs " + std::to_string(digits) + " hex digits");
    }
    return true;
  }

  // <name> or <[id]>, after an optional '!'.
  bool Token() {
    Take('!');
    const std::size_t begin = at_;
    if (!Take('<')) return Fail("'<' must follow '!'");
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) return Fail("'>' is missing");
    at_ = end + 1;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (!name.starts_with("<[")) {
      const TextPart part{std::string(name), /*trusted=*/true};
      const auto tokens = vocabulary_.Encode({&part, 1}, {.add_bos = false, .forbidden = {}});
      return (tokens.ok() && tokens->size() == 1) ||
             Fail("no token of the model is named '" + part.text + "'");
    }
    const std::string id(name.substr(2, name.size() < 4 ? 0 : name.size() - 4));
    const bool is_number =
        !id.empty() && id.size() <= 9 && std::all_of(id.begin(), id.end(), IsDigit);
    if (!is_number || !name.ends_with("]>") || !vocabulary_.Contains(std::stoi(id))) {
      return Fail("a token id of the model must be written <[123]>");
    }
    return true;
  }

  // * + ? {n} {n,} {n,m}
  bool Repetition(bool nested, Repeated* item) {
    const char c = Peek();
    ++at_;
    std::uint64_t least = c == '+' ? 1 : 0;
    std::uint64_t most = c == '?' ? 1 : kUnbounded;
    if (c == '{') {
      SkipSpace(nested);
      if (!Number(&least)) return false;
      SkipSpace(nested);
      most = least;
      if (Take(',')) {
        SkipSpace(nested);
        most = kUnbounded;
        if (IsDigit(Peek()) && !Number(&most)) return false;
        SkipSpace(nested);
      }
      if (!Take('}')) return Fail("'}' is missing");
    }
    if (most < least) {
      return Fail("a repetition must not end (" + std::to_string(most) + ") before it begins (" +
                  std::to_string(least) + ")");
    }
    // The library takes a higher upper bound for none.
    if (most > kMaxGrammarRepetitions) most = kUnbounded;
    const bool bounded = most != kUnbounded;
    const std::uint64_t times = std::max<std::uint64_t>(1, bounded ? most : least);
    if (most == 0) {
      *item = {0, 0};
      return true;
    }
    item->rules *= times;
    if (item->rules > kMaxGrammarRepetitions || item->length * times > kMaxRepeatedBytes) {
      return Fail("repetitions may multiply to " + std::to_string(kMaxGrammarRepetitions) +
                  " rules, not to " + std::to_string(item->rules) + ",");
    }
    generated_ += bounded ? most - least : 1;
    return true;
  }

  bool Number(std::uint64_t* value) {
    const std::size_t begin = at_;
    while (IsDigit(Peek())) ++at_;
    if (at_ == begin || at_ - begin > 9) return Fail("a repetition needs a number");
    *value = std::stoull(std::string(text_.substr(begin, at_ - begin)));
    return true;
  }

  std::string_view text_;
  const Vocabulary& vocabulary_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
  std::uint64_t generated_ = 0;  // rules that the library makes of groups and repetitions
  std::set<std::string> symbols_;
  std::set<std::string> defined_;
  std::set<std::string> used_;
};

}  // namespace

Status CheckGrammarSyntax(std::string_view grammar, const Vocabulary& vocabulary) {
  if (grammar.find('\0') != std::string_view::npos || !IsValidUtf8(grammar)) {
    return Status::InvalidArgument("a grammar must be UTF-8 text without NUL, not " +
                                   std::to_string(grammar.size()) + " bytes of something else");
  }
  return Checker(grammar, vocabulary).Run();
}

}  // namespace swiftkv
