# SPDX-License-Identifier: Apache-2.0
"""Lets the model call a function, gives it the result and prints what it makes of it.

Usage: tools.py [QUESTION]; the server is at SWIFTKV_URL (default http://127.0.0.1:8080)
"""

import datetime
import json
import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SWIFTKV_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("SWIFTKV_KEY", "none"),  # any text where the server has no --api-key
)
model = client.models.list().data[0].id


def weekday(date):
    """Returns the day of the week of a date such as 2001-12-31."""
    return datetime.date.fromisoformat(date).strftime("%A")


TOOL = {
    "type": "function",
    "function": {
        "name": "weekday",
        "description": weekday.__doc__,
        "parameters": {
            "type": "object",
            "properties": {
                "date": {"type": "string", "pattern": "^20[0-9][0-9]-0[1-9]-(0[1-9]|1[0-9])$"}
            },
            "required": ["date"],
        },
    },
}

question = sys.argv[1] if len(sys.argv) > 1 else "Which day of the week was 2021-03-14?"
messages = [{"role": "user", "content": question}]
reply = client.chat.completions.create(
    model=model,
    messages=messages,
    tools=[TOOL],
    tool_choice={"type": "function", "function": {"name": "weekday"}},
    parallel_tool_calls=False,
    max_completion_tokens=200,
)
message = reply.choices[0].message
messages.append(message)
for call in message.tool_calls or []:
    arguments = json.loads(call.function.arguments)
    result = weekday(**arguments)
    print(f"[{call.function.name}({arguments['date']}) gives {result}]")
    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
reply = client.chat.completions.create(
    model=model, messages=messages, tools=[TOOL], tool_choice="none", max_completion_tokens=60
)
print(reply.choices[0].message.content)
