"""What a body is, before anybody looks at what it says."""

from __future__ import annotations

import pytest

from duebook.api.bodies import parse_body, refuse_media_type
from duebook.api.problems import Malformed, WrongMediaType


def test_no_body_is_an_empty_object() -> None:
    assert parse_body(b"") == parse_body(b" \n") == parse_body(b"{}") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[1]",
        b"7",
        b'"x"',
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"b": {"a": 1, "a": 2}}',
        b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda content: content[:20],
)
def test_what_is_no_object_or_cannot_be_kept_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        parse_body(content)


def test_escapes_that_only_look_dangerous_pass() -> None:
    assert parse_body(b'{"a": "\\\\u0000", "b": "\\ud83d\\ude00"}') == {"a": "\\u0000", "b": "😀"}


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_read(kind: str | None) -> None:
    refuse_media_type("application/json; charset=utf-8")
    with pytest.raises(WrongMediaType):
        refuse_media_type(kind)
