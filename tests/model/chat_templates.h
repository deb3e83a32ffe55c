// SPDX-License-Identifier: Apache-2.0
// Writes chat templates of the kinds in use, short: with tools as tagged JSON, as bare JSON,
// without tools, and with reasoning.
#pragma once

namespace swiftkv {

// ChatML with calls between tags, as Hermes and Qwen write them.
inline constexpr const char* kTaggedTools = R"({%- if tools %}<|im_start|>system
{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + '\n' }}{% endif %}Tools:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0]['role'] == 'system' %}<|im_start|>system
{{ messages[0]['content'] }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m['role'] == 'user' or (m['role'] == 'system' and not loop.first) %}
{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}
{%- elif m['role'] == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if m['content'] %}{{- '\n' + m['content'] }}{%- endif %}
{%- for call in m['tool_calls'] %}
{{- '\n<tool_call>\n{"name": "' + call['function']['name'] + '", "arguments": ' }}
{{- call['function']['arguments'] | tojson }}{{- '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\n' }}
{%- elif m['role'] == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + m['content'] + '\n</tool_response><|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
)";

// One call a reply as bare JSON, as Llama 3 writes it; a second one is refused.
inline constexpr const char* kBareTools = R"({{- bos_token }}
{%- for m in messages %}
{%- if m['role'] == 'tool' %}
{{- '<|im_start|>ipython\n\n' + (m['content'] | tojson) + '<|im_end|>' }}
{%- elif m['tool_calls'] %}
{%- if m['tool_calls'] | length != 1 %}{{- raise_exception('one call at a time') }}{%- endif %}
{%- set call = m['tool_calls'][0]['function'] %}
{{- '<|im_start|>assistant\n\n{"name": "' + call['name'] + '", "parameters": ' }}
{{- call['arguments'] | tojson }}{{- '}<|im_end|>' }}
{%- else %}
{{- '<|im_start|>' + m['role'] + '\n\n' }}
{%- if tools and loop.first %}{{- 'You may call:\n' }}
{%- for tool in tools %}{{- (tool | tojson) + '\n' }}{%- endfor %}
{{- 'Answer {"name": function, "parameters": dictionary}.\n' }}{%- endif %}
{{- m['content'] + '<|im_end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n\n' }}{%- endif %}
)";

// Turns of user and model only, as Gemma has them.
inline constexpr const char* kNoTools = R"({{- bos_token }}
{%- for m in messages %}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate user/assistant') }}{%- endif %}
{%- set role = 'model' if m['role'] == 'assistant' else m['role'] %}
{{- '<|im_start|>' + role + '\n' + (m['content'] | trim) + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>model\n' }}{%- endif %}
)";

// Thinks between tags before it answers, and shows earlier thoughts only where they are given
// apart.
inline constexpr const char* kThinking = R"({%- for m in messages %}
{%- if m['role'] == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if m['reasoning_content'] %}
{{- '<think>\n' + m['reasoning_content'] + '\n</think>\n\n' }}{%- endif %}
{{- m['content'] + '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}
{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
)";

}  // namespace swiftkv
