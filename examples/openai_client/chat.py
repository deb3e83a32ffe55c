# SPDX-License-Identifier: Apache-2.0
"""Asks one question, whole, and says what the cache did for it.

Usage: chat.py [QUESTION]; the server is at SWIFTKV_URL (default http://127.0.0.1:8080)
"""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SWIFTKV_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("SWIFTKV_KEY", "none"),  # any text where the server has no --api-key
)
question = sys.argv[1] if len(sys.argv) > 1 else "Why is the sky blue?"
messages = [
    {"role": "system", "content": "You answer in one or two short sentences, for a curious child."},
    {"role": "user", "content": question},
]
model = client.models.list().data[0].id

reply = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=60)
print(reply.choices[0].message.content)

usage = reply.usage
print(
    f"[{usage.prompt_tokens} tokens of prompt, {usage.prompt_tokens_details.cached_tokens} of them "
    f"from the cache; {usage.completion_tokens} of reply; "
    f"first token after {reply.swiftkv['ttft_ms']:.0f} ms]"
)
