// SPDX-License-Identifier: Apache-2.0
// Reads scenarios and writes them: commands to a cache, each with the outcome that is expected.
//
// A line that begins with # is a comment. Every other one is a command, "->" and its outcome; the
// two may also stand on a line of their own.
#pragma once

#include <algorithm>
#include <istream>
#include <sstream>
#include <string>
#include <vector>

namespace swiftkv {

struct ScenarioLine {
  int number = 0;        // of the line in its file, from 1 on
  std::string command;   // empty for comments and blank lines
  std::string comment;   // as it stands
  std::string expected;  // outcome
  std::string found;     // by running it
};

inline std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

inline std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

inline std::vector<ScenarioLine> ParseScenario(std::istream& in) {
  constexpr const char* kArrow = "->";
  std::vector<ScenarioLine> lines;
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    ScenarioLine line;
    line.number = ++number;
    if (text.empty() || text[0] == '#') {
      line.comment = text;
      lines.push_back(line);
      continue;
    }
    const std::size_t arrow = text.find(kArrow);
    line.command = JoinWords(WordsOf(text.substr(0, arrow)));
    if (arrow != std::string::npos) line.expected = JoinWords(WordsOf(text.substr(arrow + 2)));
    if (line.command.empty() && !lines.empty() && lines.back().expected.empty()) {
      lines.back().expected = line.expected;
      continue;
    }
    lines.push_back(line);
  }
  return lines;
}

// Writes what was found as what is expected, in columns.
inline std::string ScenarioText(const std::vector<ScenarioLine>& lines) {
  constexpr std::size_t kLineWidth = 100;
  constexpr std::size_t kWidestColumn = 44;
  std::size_t column = 0;
  for (const ScenarioLine& line : lines) {
    if (line.command.size() <= kWidestColumn) column = std::max(column, line.command.size());
  }
  std::string text;
  for (const ScenarioLine& line : lines) {
    text += line.comment + line.command;
    if (!line.found.empty()) {
      const std::size_t width = std::max(column, line.command.size());
      const bool fits = width + 4 + line.found.size() <= kLineWidth;
      text += fits ? std::string(width - line.command.size(), ' ') + " -> " : "\n    -> ";
      text += line.found;
    }
    text += "\n";
  }
  return text;
}

}  // namespace swiftkv
