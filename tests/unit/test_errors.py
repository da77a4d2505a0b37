"""What errors say about values that somebody gave."""

from __future__ import annotations

import json

import pytest

from duebook.errors import Invalid, json_problem, shorten
from duebook.ids import check_name


def test_objects_and_lists_are_shown_as_json() -> None:
    assert shorten({"only": "a", "on": True}) == '{"only": "a", "on": true}'
    assert shorten(["é", None]) == '["é", null]'
    assert shorten({("a", 1): 2}) == "{('a', 1): 2}", "no JSON has such keys"
    circle: list[object] = []
    circle.append(circle)
    assert shorten(circle) == "a list"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b"\x93", "it is not UTF-8 text"),
        (b"[1,", "Expecting value: line 1 column 4 (char 3)"),
    ],
)
def test_what_is_wrong_with_json_is_told_without_words_of_python(content: bytes, told: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as caught:
        json.loads(content.decode())
    assert json_problem(caught.value) == told


@pytest.mark.parametrize("name", [5, 1.5, True, ["a"]])
def test_a_name_that_is_not_text_needs_quotes(name: object) -> None:
    with pytest.raises(Invalid, match="it must be text; put it in quotes"):
        check_name(name)
