# SPDX-License-Identifier: Apache-2.0
"""Tests schemas of replies that ask for all of the memory, the stack or the time."""

import json

from raw_socket import RawTest, request


class SchemasTest(RawTest):
    """Schemas."""

    def test_schemas_that_explode_are_refused_or_answered(self):
        wide = {f"p{number}": {"type": "string"} for number in range(20000)}
        nested = {"type": "object"}
        for _ in range(20):
            nested = {"type": "object", "properties": {"a": nested}, "required": ["a"]}
        schemas = {
            "huge counts": {"type": "array", "items": {}, "minItems": 10**9},
            "huge strings": {"type": "string", "minLength": 10**9, "maxLength": 10**18},
            "pattern of powers": {"type": "string", "pattern": "^((((a{99}){99}){99}){99})$"},
            "open pattern": {"type": "string", "pattern": "^" + "(" * 100000 + "$"},
            "deep pattern": {
                "type": "string",
                "pattern": "^" + "(" * 9999 + "a" + ")" * 9999 + "$",
            },
            "wide": {"type": "object", "properties": wide},
            "nested": nested,
            "loop": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "loop of choices": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
            "elsewhere": {"$ref": "http://127.0.0.1:9/schema.json"},
            "file": {"$ref": "file:///etc/passwd"},
            "unknown type": {"type": "sword"},
            "wrong types": {"type": "object", "properties": 5, "required": "x", "items": []},
            "no range": {"type": "integer", "minimum": 5, "maximum": 4},
            "huge range": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        }
        for name, schema in schemas.items():
            with self.subTest(name):
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
                body = json.dumps({**body, "response_format": form}).encode()
                status, said = self.ask_raw(request(b"/v1/chat/completions", body))
                self.assertIn(status, (200, 400), said)
                self.assertIn("choices" if status == 200 else "error", json.loads(said))
