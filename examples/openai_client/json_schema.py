# SPDX-License-Identifier: Apache-2.0
"""Gets a reply as an object of a class: the server holds the model to the class's JSON schema, token
by token, so that even a small model's reply parses.

Usage: json_schema.py [TEXT]; the server is at SWIFTKV_URL (default http://127.0.0.1:8080)
"""

import os
import sys
from typing import Literal

from openai import OpenAI
from pydantic import BaseModel


class Review(BaseModel):
    """What is to be found in a review."""

    feeling: Literal["good", "mixed", "bad"]
    stars: Literal[1, 2, 3, 4, 5]
    would_come_again: bool


client = OpenAI(
    base_url=os.environ.get("SWIFTKV_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("SWIFTKV_KEY", "none"),  # any text where the server has no --api-key
)
text = sys.argv[1] if len(sys.argv) > 1 else "Lovely soup, and the waiter sang. We shall return!"
reply = client.chat.completions.parse(
    model=client.models.list().data[0].id,
    messages=[{"role": "user", "content": f"Sum up this review of a restaurant as JSON: {text}"}],
    response_format=Review,
    temperature=0,
    max_completion_tokens=200,
)
review = reply.choices[0].message.parsed
print(f"feeling: {review.feeling}, stars: {review.stars}, again: {review.would_come_again}")
