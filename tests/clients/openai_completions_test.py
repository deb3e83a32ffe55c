# SPDX-License-Identifier: Apache-2.0
"""Tests text completions and the list of models as OpenAI's own client sees them."""

import openai

from served_model import ServedTest


class CompletionsTest(ServedTest):
    """Text that is continued."""

    def tokens(self, text):
        """Returns the ids of a prompt."""
        return self.server.ask("/tokenize", {"prompt": text})[1]["tokens"]

    def test_the_one_model_is_listed(self):
        models = list(self.client.models.list())
        self.assertEqual([model.id for model in models], [self.model])
        self.assertEqual(models[0].object, "model")

    def test_the_model_is_found_by_its_name_and_no_other_is(self):
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)
        with self.assertRaises(openai.NotFoundError) as refusal:
            self.client.models.retrieve("other")
        self.assertEqual(refusal.exception.code, "model_not_found")

    def test_a_whole_reply_has_what_the_client_types_promise(self):
        reply = self.complete()
        self.assertEqual(reply.object, "text_completion")
        self.assertEqual(reply.choices[0].finish_reason, "length")
        self.assertEqual(reply.usage.completion_tokens, 12)
        self.assertEqual(reply.usage.prompt_tokens, len(self.tokens("Once")))

    def test_a_stream_says_what_the_whole_reply_says(self):
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        said = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        self.assertEqual(said, self.complete().choices[0].text)
        self.assertEqual(chunks[-1].usage.completion_tokens, 12)

    def test_ids_of_tokens_are_as_good_as_their_text(self):
        said = self.complete("Once upon a time").choices[0].text
        ids = self.tokens("Once upon a time")
        self.assertEqual(self.complete(ids).choices[0].text, said)
        self.assertEqual(self.complete([ids]).choices[0].text, said)

    def test_prompts_of_a_list_are_answered_in_its_order(self):
        prompts = ["Once", "Twice", "Thrice"]
        alone = [self.complete(prompt).choices[0].text for prompt in prompts]
        reply = self.complete(prompts)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1, 2])
        self.assertEqual([choice.text for choice in reply.choices], alone)
        self.assertEqual(reply.usage.completion_tokens, 36)

    def test_choices_of_several_prompts_come_prompt_by_prompt(self):
        reply = self.complete(["Once", "Twice"], n=2, temperature=1, seed=5)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1, 2, 3])
        first = self.complete("Once", n=2, temperature=1, seed=5)
        self.assertEqual(
            [choice.text for choice in reply.choices[:2]], [one.text for one in first.choices]
        )

    def test_an_echo_comes_before_the_reply(self):
        said = self.complete().choices[0].text
        self.assertEqual(self.complete(echo=True).choices[0].text, "Once" + said)

    def test_stop_strings_and_tokens_end_a_reply(self):
        whole = self.complete(max_tokens=40).choices[0].text
        reply = self.complete(max_tokens=40, stop=whole[8:11])
        self.assertEqual(reply.choices[0].text, whole[: whole.index(whole[8:11])])
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        forced = self.tokens("x")[-1]
        stopped = self.complete(
            logit_bias={str(forced): 100}, extra_body={"stop_token_ids": [forced]}
        )
        self.assertEqual(stopped.choices[0].finish_reason, "stop")
        self.assertEqual(stopped.choices[0].text, "")

    def test_log_probabilities_line_up_with_the_text(self):
        reply = self.complete(logprobs=3)
        found = reply.choices[0].logprobs
        self.assertEqual(len(found.tokens), 12)
        self.assertEqual(len(found.token_logprobs), 12)
        for token, value, top in zip(found.tokens, found.token_logprobs, found.top_logprobs):
            self.assertAlmostEqual(top[token], value)
            self.assertEqual(value, max(top.values()))
        self.assertEqual(found.text_offset, sorted(found.text_offset))

    def test_sampling_fields_of_the_client_are_taken(self):
        reply = self.complete(
            temperature=0.9,
            top_p=0.8,
            frequency_penalty=0.5,
            presence_penalty=-0.5,
            best_of=1,
            seed=1,
            user="somebody",
            extra_body={"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1, "ignore_eos": True},
        )
        self.assertEqual(reply.usage.completion_tokens, 12)

    def test_a_penalty_of_repetition_sees_the_same_on_a_warm_prompt(self):
        fields = {"extra_body": {"repetition_penalty": 1.3}, "frequency_penalty": 1}
        words = "again and again the same words come again and again " * 2
        cold = self.complete(words, **fields)
        warm = self.complete(words, **fields)
        self.assertGreater(warm.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(warm.choices[0].text, cold.choices[0].text)
