# SPDX-License-Identifier: Apache-2.0
"""Holds a chat of two turns, printed as it comes; the second turn finds the first in the cache.

Usage: stream.py; the server is at SWIFTKV_URL (default http://127.0.0.1:8080)
"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SWIFTKV_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("SWIFTKV_KEY", "none"),  # any text where the server has no --api-key
)
model = client.models.list().data[0].id
messages = []

for question in ("Name one fruit and say what it looks like.", "And how does it taste?"):
    print(f"> {question}")
    messages.append({"role": "user", "content": question})
    said = ""
    stream = client.chat.completions.create(
        model=model,
        messages=messages,
        max_completion_tokens=60,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            said += chunk.choices[0].delta.content
            print(chunk.choices[0].delta.content, end="", flush=True)
        if chunk.usage:  # the last one
            cached = chunk.usage.prompt_tokens_details.cached_tokens
            print(f"\n[{cached} of {chunk.usage.prompt_tokens} tokens of prompt from the cache]")
    messages.append({"role": "assistant", "content": said})
