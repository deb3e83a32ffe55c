# SPDX-License-Identifier: Apache-2.0
"""Tests chats as OpenAI's own client sees them: every field that it can send, whole and streamed."""

import asyncio
import json
import math
from typing import Literal

import openai
import pydantic

from served_model import ServedTest

SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green", "blue"]},
        "weight": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["colour", "weight", "tags"],
    "additionalProperties": False,
}


class Ball(pydantic.BaseModel):
    """What the client makes a schema of by itself."""

    colour: Literal["red", "green", "blue"]
    bounces: bool


def text_of(chunks):
    """Returns the text of a streamed choice 0."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


class ChatTest(ServedTest):
    """Chats."""

    def test_a_whole_reply_has_what_the_client_types_promise(self):
        reply = self.chat()
        self.assertEqual(reply.object, "chat.completion")
        self.assertEqual(reply.model, self.model)
        self.assertEqual(reply.choices[0].message.role, "assistant")
        self.assertTrue(reply.choices[0].message.content)
        self.assertEqual(reply.choices[0].finish_reason, "length")
        self.assertEqual(reply.usage.completion_tokens, 12)
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + 12)

    def test_a_stream_says_what_the_whole_reply_says(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(text_of(chunks), whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.choices[0].finish_reason for c in chunks[:-1]][-1], "length")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_a_stream_without_usage_has_none(self):
        chunks = list(self.chat(stream=True))
        self.assertTrue(all(chunk.usage is None and chunk.choices for chunk in chunks))

    def test_the_streaming_interface_of_the_client_ends_with_the_whole_reply(self):
        stop = self.chat(max_completion_tokens=40).choices[0].message.content[10:13]
        whole = self.chat(max_completion_tokens=40, stop=stop).choices[0].message.content
        with self.client.chat.completions.stream(
            model=self.model,
            messages=[{"role": "user", "content": "Say something."}],
            temperature=0,
            max_completion_tokens=40,
            stop=stop,
        ) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion()
        self.assertEqual("".join(deltas), whole)
        self.assertEqual(final.choices[0].message.content, whole)

    def test_a_prompt_that_comes_again_is_found_in_the_cache(self):
        words = "a prompt of more than one page of the cache, told twice " * 3
        cold = self.chat(words)
        warm = self.chat(words)
        self.assertEqual(cold.choices[0].message.content, warm.choices[0].message.content)
        self.assertGreaterEqual(
            warm.usage.prompt_tokens_details.cached_tokens, warm.usage.prompt_tokens - 17
        )
        self.assertEqual(warm.swiftkv["prefix_end"], "whole_prompt")

    def test_salts_and_refusals_to_cache_keep_prompts_apart(self):
        words = "a prompt that is read under one salt and then another " * 3
        self.chat(words, extra_body={"cache_salt": "one"})
        other = self.chat(words, extra_body={"cache_salt": "two"})
        same = self.chat(words, extra_body={"cache_salt": "one"})
        never = self.chat(words, extra_body={"cache_salt": "one", "cache_prompt": False})
        self.assertLess(other.usage.prompt_tokens_details.cached_tokens, 16)
        self.assertGreater(same.usage.prompt_tokens_details.cached_tokens, 32)
        self.assertEqual(never.usage.prompt_tokens_details.cached_tokens, 0)

    def test_text_parts_are_one_text(self):
        parts = [{"type": "text", "text": "Say "}, {"type": "text", "text": "something."}]
        split = self.chat(messages=[{"role": "user", "content": parts}])
        self.assertEqual(split.choices[0].message.content, self.chat().choices[0].message.content)

    def test_a_reply_ends_before_a_stop_string(self):
        whole = self.chat(max_completion_tokens=40).choices[0].message.content
        stop = whole[10:13]
        for stream in (False, True):
            reply = self.chat(max_completion_tokens=40, stop=[stop, "never said"], stream=stream)
            told = text_of(reply) if stream else reply.choices[0].message.content
            self.assertEqual(told, whole[: whole.index(stop)])
        self.assertEqual(self.chat(stop=stop).choices[0].finish_reason, "stop")

    def test_choices_are_numbered_and_differ(self):
        reply = self.chat(n=3, temperature=1, seed=7)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1, 2])
        self.assertEqual(len({choice.message.content for choice in reply.choices}), 3)
        self.assertEqual(reply.usage.completion_tokens, 36)

    def test_streamed_choices_are_those_of_the_whole_reply(self):
        whole = self.chat(n=3, temperature=1, seed=7)
        texts = ["", "", ""]
        for chunk in self.chat(n=3, temperature=1, seed=7, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])

    def test_a_seed_repeats_a_reply_and_another_changes_it(self):
        first = self.chat(temperature=1, seed=11).choices[0].message.content
        self.assertEqual(self.chat(temperature=1, seed=11).choices[0].message.content, first)
        self.assertNotEqual(self.chat(temperature=1, seed=12).choices[0].message.content, first)

    def test_the_seed_that_was_drawn_repeats_its_reply(self):
        drawn = self.chat(temperature=1)
        again = self.chat(temperature=1, seed=drawn.swiftkv["seed"])
        self.assertEqual(again.choices[0].message.content, drawn.choices[0].message.content)
        self.assertIn(drawn.swiftkv["seed"], range(1 << 53))  # a double holds it
        self.assertEqual(self.chat(seed=-5).swiftkv["seed"], -5)

    def test_log_probabilities_are_those_of_the_text_and_sorted(self):
        reply = self.chat(logprobs=True, top_logprobs=4)
        rows = reply.choices[0].logprobs.content
        said = b"".join(bytes(row.bytes) for row in rows)
        self.assertEqual(said.decode(errors="replace"), reply.choices[0].message.content)
        for row in rows:
            alternatives = [top.logprob for top in row.top_logprobs]
            self.assertEqual(alternatives, sorted(alternatives, reverse=True))
            self.assertEqual(row.logprob, alternatives[0])  # greedy
            self.assertLessEqual(sum(map(math.exp, alternatives)), 1 + 1e-6)

    def test_a_bias_of_100_decides_and_of_minus_100_forbids(self):
        status, told = self.server.ask("/tokenize", {"prompt": "x", "add_special_tokens": False})
        self.assertEqual((status, told["count"]), (200, 1))
        token = str(told["tokens"][0])
        self.assertEqual(self.chat(logit_bias={token: 100}).choices[0].message.content, "x" * 12)
        forbidden = self.chat(logit_bias={token: -100}, n=4, temperature=1, seed=1)
        self.assertNotIn("x", "".join(choice.message.content for choice in forbidden.choices))

    def test_a_reply_held_to_json_is_json(self):
        reply = self.chat(
            response_format={"type": "json_object"},
            max_completion_tokens=400,
            temperature=1,
            seed=3,
            logit_bias=self.bias_towards('}"'),
        )
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertIsInstance(json.loads(reply.choices[0].message.content), dict)

    def test_a_reply_held_to_a_schema_obeys_it(self):
        form = {"type": "json_schema", "json_schema": {"name": "ball", "schema": SCHEMA}}
        for seed in range(4):
            for stream in (False, True):
                reply = self.chat(
                    response_format=form,
                    max_completion_tokens=400,
                    temperature=1,
                    seed=seed,
                    stream=stream,
                )
                ball = json.loads(text_of(reply) if stream else reply.choices[0].message.content)
                self.assertEqual(set(ball), {"colour", "weight", "tags"})
                self.assertIn(ball["colour"], ("red", "green", "blue"))
                self.assertIn(ball["weight"], range(1, 10))
                self.assertIn(len(ball["tags"]), (1, 2))
                self.assertTrue(all(isinstance(tag, bool) for tag in ball["tags"]))

    def test_the_client_parses_a_reply_into_a_model_of_its_own(self):
        reply = self.client.chat.completions.parse(
            model=self.model,
            messages=[{"role": "user", "content": "Which ball?"}],
            response_format=Ball,
            max_completion_tokens=400,
        )
        self.assertIsInstance(reply.choices[0].message.parsed, Ball)

    def test_what_was_cut_short_is_told_apart_from_what_was_parsed(self):
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(
                model=self.model,
                messages=[{"role": "user", "content": "Which ball?"}],
                response_format=Ball,
                max_completion_tokens=2,
            )

    def test_many_at_once_say_what_each_says_alone(self):
        questions = [f"Question {number}, and its like?" for number in range(8)]
        alone = [self.chat(question).choices[0].message.content for question in questions]

        async def ask_all():
            async with self.server.client(kind="AsyncOpenAI") as client:
                return await asyncio.gather(
                    *(
                        client.chat.completions.create(
                            model=self.model,
                            messages=[{"role": "user", "content": question}],
                            temperature=0,
                            max_completion_tokens=12,
                        )
                        for question in questions
                    )
                )

        together = [reply.choices[0].message.content for reply in asyncio.run(ask_all())]
        self.assertEqual(together, alone)

    def bias_towards(self, letters):
        """Returns a bias under which a model with random weights ends what it opened."""
        told = self.server.ask("/tokenize", {"prompt": letters, "add_special_tokens": False})[1]
        return {str(token): 5 for token in told["tokens"]}
