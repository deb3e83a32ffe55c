// SPDX-License-Identifier: Apache-2.0
// Writes tools, calls and results out as text.
#include "model/tool_fallback.h"

#include <utility>

#include "json.h"

namespace swiftkv {
namespace {

constexpr const char* kIntroduction =
    "You may call functions to answer. Each line below describes one as JSON:\n<tools>\n";
constexpr const char* kInstruction =
    "</tools>\nTo call a function, write its name and its arguments as JSON between tags, and "
    "nothing behind them:\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>";

std::string Quoted(const std::string& text) { return common_json::make(text).dump_safe(); }

std::string Described(std::span<const ChatTool> tools) {
  std::string text = kIntroduction;
  for (const ChatTool& tool : tools) {
    text += "{\"type\": \"function\", \"function\": {\"name\": " + Quoted(tool.name) +
            ", \"description\": " + Quoted(tool.description) +
            ", \"parameters\": " + tool.parameters + "}}\n";
  }
  return text + kInstruction;
}

std::string CallText(const ChatToolCall& call) {
  const std::string arguments = call.arguments.empty() ? "{}" : call.arguments;
  return "<tool_call>\n{\"name\": " + Quoted(call.name) + ", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

void AddLine(const std::string& line, std::string* text) {
  if (!text->empty()) *text += '\n';
  *text += line;
}

}  // namespace

std::vector<ChatMessage> WithToolsAsText(std::vector<ChatMessage> messages,
                                         std::span<const ChatTool> tools) {
  std::vector<ChatMessage> plain;
  bool joins_results = false;
  for (ChatMessage& message : messages) {
    for (const ChatToolCall& call : std::exchange(message.tool_calls, {})) {
      AddLine(CallText(call), &message.content);
    }
    const bool is_result = message.role == "tool";
    if (is_result) {
      message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
      // Results of parallel calls are one turn: most templates want roles to alternate.
      if (joins_results) {
        AddLine(message.content, &plain.back().content);
        continue;
      }
      message = {"user", std::move(message.content)};
    }
    joins_results = is_result;
    plain.push_back(std::move(message));
  }
  if (tools.empty()) return plain;
  const bool has_system =
      !plain.empty() && (plain[0].role == "system" || plain[0].role == "developer");
  if (!has_system) plain.insert(plain.begin(), ChatMessage{"system", ""});
  std::string& system = plain.front().content;
  system += (system.empty() ? "" : "\n\n") + Described(tools);
  return plain;
}

const std::string& ToolFallbackTemplate() {
  static const std::string source = R"({%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\n' + message.content }}{%- endif %}
{%- for tool_call in message.tool_calls %}
{{- '\n<tool_call>\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
{{- tool_call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
)";
  return source;
}

}  // namespace swiftkv
