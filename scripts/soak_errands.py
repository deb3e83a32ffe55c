# SPDX-License-Identifier: Apache-2.0
"""Draws the requests of scripts/soak_server.py and the faults of its clients from a seed, and judges
replies.
"""

import dataclasses
import json
import pathlib
import random
import re

WORDS = pathlib.Path(__file__).read_text(encoding="utf-8").split()
EVENT = re.compile(rb"^data: (\{.*)$", re.MULTILINE)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look_up", "description": "Looks a word up", "parameters": SCHEMA},
    }
]


@dataclasses.dataclass
class Errand:
    """One request and what its client does with it."""

    name: str
    data: bytes
    statuses: tuple = (200,)
    is_json: bool = True
    leaves_after_sending: int = -1  # bytes; -1: sends all
    leaves_after_reading: int = -1  # bytes; -1: reads all
    resets: bool = False  # on leaving: a reset instead of an end
    pause_seconds: float = 0.0  # between pieces that are read


class Errands:
    """Draws errands of one client: of all kinds, or of one of PHASES alone."""

    # What draws the errands of each.
    PHASES = {
        "mixed": "mixed",
        "unique": "unique",
        "repeated": "repeated",
        "left": "left",
        "refused": "wrong",
    }

    def __init__(self, seed, client, phase="mixed"):
        self.chance = random.Random(f"{seed} {client}")
        self.draw = getattr(self, self.PHASES[phase])
        self.shared = [self.words(random.Random(f"{seed} {n}"), 150) for n in range(3)]

    @staticmethod
    def words(chance, count):
        """Returns some words."""
        return " ".join(chance.choice(WORDS) for _ in range(count))

    def unique(self):
        """One token behind a prompt that nobody sent before."""
        own = self.words(self.chance, self.chance.randint(5, 80))
        fields = {"prompt": f"{self.chance.getrandbits(64)} {own}", "max_tokens": 1}
        return self.post("unique", "/v1/completions", fields)

    def repeated(self):
        """One token behind one of three prompts."""
        fields = {"prompt": self.chance.choice(self.shared), "max_tokens": 1}
        return self.post("repeated", "/v1/completions", fields)

    def left(self):
        """A stream whose client leaves early, at times while the prompt is still sent."""
        fields = {"messages": self.messages(), "max_tokens": 48, "stream": True}
        errand = self.post("left", "/v1/chat/completions", fields)
        if self.chance.random() < 0.2:
            errand.leaves_after_sending = self.chance.randrange(len(errand.data))
        else:
            errand.leaves_after_reading = int(self.chance.expovariate(1 / 1000))
        errand.resets = self.chance.random() < 0.5
        return errand

    def mixed(self):
        """Any errand, and now and then a client that leaves or reads slowly."""
        kind = self.chance.choices(
            (self.completion, self.chat, self.constrained, self.tools, self.wrong, self.small),
            (6, 6, 2, 2, 2, 3),
        )[0]
        errand = kind()
        fault = self.chance.random()
        if fault < 0.10:
            errand.leaves_after_sending = self.chance.randrange(len(errand.data))
        elif fault < 0.35:
            errand.leaves_after_reading = int(self.chance.expovariate(1 / 2000))
        elif fault < 0.40:
            errand.pause_seconds = 0.02
        errand.resets = self.chance.random() < 0.5
        return errand

    def fields(self):
        """Returns fields that all generations have."""
        streams = self.chance.random() < 0.6
        fields = {
            "max_tokens": self.chance.randint(1, 48),
            "temperature": self.chance.choice((0, 0.7, 1)),
            "seed": self.chance.randrange(1000),
            "stream": streams,
            "n": self.chance.choice((1, 1, 1, 2)),
        }
        if streams:
            fields["stream_options"] = {"include_usage": self.chance.random() < 0.5}
        if self.chance.random() < 0.2:
            fields["stop"] = [self.chance.choice(("the", ".", "\n"))]
        if self.chance.random() < 0.1:
            fields["cache_prompt"] = False
        if self.chance.random() < 0.1:
            fields["cache_salt"] = self.chance.choice("ab")
        if self.chance.random() < 0.2:
            fields["kv_policy"] = self.chance.choice(("keydiff", "snapkv", "sink_recent"))
            fields["kv_ratio"] = self.chance.choice((0.25, 0.5))
        return fields

    def text(self):
        """Returns a prompt: often one of the shared beginnings with an end of its own."""
        own = self.words(self.chance, self.chance.randint(1, 60))
        return self.chance.choice(self.shared) + own if self.chance.random() < 0.6 else own

    def completion(self):
        """A text that is continued, at times of many choices or with log-probabilities."""
        fields = {"prompt": self.text(), **self.fields()}
        if self.chance.random() < 0.2:
            fields["prompt"] = [self.text(), self.text()]
        if self.chance.random() < 0.2:
            fields["logprobs"] = 2
        return self.post("completion", "/v1/completions", fields)

    def messages(self):
        """Returns a chat of one to five messages."""
        roles = ["user", "assistant"] * 2 + ["user"]
        roles = roles[: self.chance.choice((1, 3, 5))]
        return [{"role": role, "content": self.text()} for role in roles]

    def chat(self):
        """A chat."""
        fields = {"messages": self.messages(), **self.fields()}
        return self.post("chat", "/v1/chat/completions", fields)

    def constrained(self):
        """A chat whose reply follows a schema."""
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        fields = {"messages": self.messages(), **self.fields(), "response_format": form}
        return self.post("schema", "/v1/chat/completions", fields)

    def tools(self):
        """A chat with a tool, which the model may call or must."""
        choice = self.chance.choice(("auto", "required", "none"))
        fields = {"messages": self.messages(), **self.fields(), "tools": TOOLS}
        errand = self.post("tools", "/v1/chat/completions", {**fields, "tool_choice": choice})
        errand.statuses = (200, 400)  # not every template has tools
        return errand

    def wrong(self):
        """A request that must be refused."""
        return self.chance.choice(
            (
                self.post("wrong", "/v1/completions", {"prompt": "a", "temperature": -1}, (400,)),
                self.post("wrong", "/v1/chat/completions", {"messages": [{}]}, (400,)),
                self.post("wrong", "/v1/embeddings", {"input": "a"}, (404,)),
                self.post("wrong", "/v1/completions", {"model": "another"}, (404,)),
                Errand("wrong", b"NONSENSE\r\n\r\n", (400,)),
                Errand("wrong", http("POST", "/tokenize", b'{"prompt": "\xff'), (400,)),
                Errand("wrong", b"GET /health HTTP/1.1\r\nX: " + b"a" * 70000, (431,)),
            )
        )

    def small(self):
        """A request that is answered at once."""
        return self.chance.choice(
            (
                self.post("small", "/tokenize", {"prompt": self.text()}),
                self.post("small", "/detokenize", {"tokens": [5, 6, 7]}),
                Errand("small", http("GET", "/v1/models")),
                Errand("small", http("GET", "/kv")),
                Errand("small", http("GET", "/health")),
                Errand("small", http("GET", "/metrics"), (200, 404), is_json=False),
            )
        )

    @staticmethod
    def post(name, path, fields, statuses=(200, 429)):
        """Returns an errand that posts JSON."""
        return Errand(name, http("POST", path, json.dumps(fields).encode()), statuses)


def http(method, path, body=None):
    """Returns the bytes of a request on a connection of its own."""
    head = f"{method} {path} HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n"
    if body is not None:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


def unchunked(body):
    """Returns the bytes of a chunked body, None where it is cut short."""
    whole = b""
    while True:
        size, mark, rest = body.partition(b"\r\n")
        if not mark or len(rest) < int(size, 16) + 2:
            return None
        if int(size, 16) == 0:
            return whole
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


def fault_of(errand, reply):
    """Returns what is wrong with a reply that was read to its end; "" where nothing is."""
    head, mark, body = reply.partition(b"\r\n\r\n")
    if not mark:
        return "the reply has no end of its head"
    status = int(head.split(b" ")[1])
    if status not in errand.statuses:
        return f"status {status}, expected one of {errand.statuses}: {body[:200]!r}"
    if b"chunked" in head:
        body = unchunked(body)
        if body is None or not body.endswith(b"data: [DONE]\n\n"):
            return "the stream is cut short"
        if any("error" in json.loads(event) for event in EVENT.findall(body)):
            return f"the stream has an error: {body[-300:]!r}"
    elif errand.is_json and "error" in json.loads(body) and status == 200:
        return "an error has status 200"
    return ""
