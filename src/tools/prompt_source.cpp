// SPDX-License-Identifier: Apache-2.0
// Reads and checks prompts.
#include "tools/prompt_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "tools/input_lines.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostPromptBytes = 256UL << 20;

Status Named(const Status& status, const std::string& name) {
  if (status.code() == StatusCode::kCancelled) return status;
  return {status.code(), fmt::format("{} cannot be read: {}", name, status.message())};
}

Result<std::string> ReadDescriptor(int descriptor, const std::string& name) {
  Result<std::string> text = ReadAll(descriptor, kMostPromptBytes);
  if (!text.ok()) return Named(text.status(), name);
  return text;
}

void DropLastLineBreak(std::string* text) {
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
}

Result<std::string> ReadText(const PromptOptions& options) {
  if (options.text) return *options.text;
  SKV_ASSIGN_OR_RETURN(std::string text, ReadPromptFile(options.file.value_or("-")));
  DropLastLineBreak(&text);
  return text;
}

// Returns the offset of the first character that is not UTF-8; there is one.
std::size_t FirstBadByte(std::string_view text) {
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = start + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    if (!IsValidUtf8(text.substr(start, end - start))) break;
    start = end;
  }
  return start;
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path) {
  const std::string name = PrintableExcerpt(path, 200);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Status::NotFound(fmt::format("file {} cannot be read: {}", name, std::strerror(errno)));
  }
  Result<std::string> text = ReadDescriptor(descriptor, "file " + name);
  ::close(descriptor);
  return text;
}

Result<std::string> ReadPromptFile(const std::string& path) {
  return path == "-" ? ReadDescriptor(STDIN_FILENO, "standard input") : ReadTextFile(path);
}

Status CheckUtf8(const std::string& text, const std::string& name) {
  if (IsValidUtf8(text)) return Status::Ok();
  const std::size_t at = FirstBadByte(text);
  return Status::InvalidArgument(fmt::format("{} must be UTF-8; byte {} is {:#04x}", name, at,
                                             static_cast<unsigned char>(text[at])));
}

Result<std::string> ReadPrompt(const PromptOptions& options) {
  SKV_ASSIGN_OR_RETURN(std::string text, ReadText(options));
  if (text.empty()) {
    return Status::InvalidArgument(
        "the prompt is empty; give some text with -p, -f or standard input");
  }
  SKV_RETURN_IF_ERROR(CheckUtf8(text, "the prompt"));
  return text;
}

bool WantsChat(const PromptOptions& options) {
  if (options.interactive) return true;
  return !options.raw && !options.text && !options.file && !options.many &&
         ::isatty(STDIN_FILENO) == 1;
}

}  // namespace swiftkv
