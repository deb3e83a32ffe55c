# SPDX-License-Identifier: Apache-2.0
"""Tests tools as OpenAI's own client sees them: a grammar makes any model call."""

import json

import openai

from served_model import ServedTest

LIGHT = {
    "type": "function",
    "function": {
        "name": "light",
        "description": "Switches the light",
        "parameters": {
            "type": "object",
            "properties": {"state": {"enum": ["on", "off"]}},
            "required": ["state"],
            "additionalProperties": False,
        },
    },
}


class ToolsTest(ServedTest):
    """Tools and their results in chats."""

    def call(self, **fields):
        """Returns a chat that has to call."""
        chosen = {"tools": [LIGHT], "tool_choice": "required", "parallel_tool_calls": False}
        return self.chat(max_completion_tokens=200, **{**chosen, **fields})

    def test_a_required_call_has_arguments_of_the_schema(self):
        choice = self.call().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertIsNone(choice.message.content)
        (call,) = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "light"))
        self.assertIn(json.loads(call.function.arguments)["state"], ("on", "off"))

    def test_the_clients_own_helper_joins_a_stream_to_the_same_call(self):
        whole = self.call().choices[0].message.tool_calls[0].function
        fields = {"messages": [{"role": "user", "content": "Say something."}], "model": self.model}
        with self.client.chat.completions.stream(
            **fields,
            tools=[LIGHT],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=200,
        ) as stream:
            pieces = [e.arguments_delta for e in stream if "arguments.delta" in e.type]
            final = stream.get_final_completion()
        call = final.choices[0].message.tool_calls[0].function
        self.assertEqual(call.name, whole.name)
        self.assertTrue("".join(pieces).startswith(call.arguments))
        self.assertEqual(final.choices[0].finish_reason, "tool_calls")

    def test_a_result_goes_back_as_the_client_sends_it(self):
        asked = [{"role": "user", "content": "Lights, please."}]
        message = self.call(messages=asked).choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "done"}
        reply = self.chat(messages=[*asked, message, result], tools=[LIGHT])
        self.assertIn(reply.choices[0].finish_reason, ("stop", "length", "tool_calls"))
        shorter = self.chat(messages=asked, tools=[LIGHT])
        self.assertGreater(reply.usage.prompt_tokens, shorter.usage.prompt_tokens)

    def test_a_bad_schema_is_told_by_its_place(self):
        bad = json.loads(json.dumps(LIGHT))
        bad["function"]["parameters"]["properties"]["state"] = {"$ref": "#/nowhere"}
        with self.assertRaises(openai.BadRequestError) as refused:
            self.call(tools=[LIGHT | {"function": LIGHT["function"] | {"name": "a"}}, bad])
        self.assertEqual(refused.exception.param, "tools[1].function.parameters")
