"""YAML: places, scalars of YAML 1.2, and what is refused."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.parse import MOST_NODES, parse, plain
from duebook.flows.problems import Refused


def refusal(text: str) -> str:
    with pytest.raises(Refused) as caught:
        parse(text, "f.yaml")
    return str(caught.value.problem)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("-3", -3),
        ("1.50", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-03-29", "2026-03-29"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("-", None),
        ("9" * 50, "9" * 50),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    [node] = parse(f"a: {text}\n" if text != "-" else "a:\n", "f.yaml")
    found = plain(node)["a"]
    assert found == value
    assert type(found) is type(value)


def test_each_value_and_key_knows_its_place() -> None:
    [node] = parse("a: 1\nb:\n  - c: x\n", "f.yaml")
    inner = node.value["b"].value[0]
    assert (inner.keys["c"].line, inner.keys["c"].column) == (3, 5)
    assert (inner.value["c"].line, inner.value["c"].column) == (3, 8)


def test_a_file_has_any_number_of_documents() -> None:
    assert [plain(node) for node in parse("a: 1\n---\nb: 2\n", "f")] == [{"a": 1}, {"b": 2}]
    assert parse("", "f") == []
    assert parse("# nothing\n", "f") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: !!str 1", "f.yaml:1:4: tag tag:yaml.org,2002:str is not allowed; leave it out"),
        ("a: !!python/object:os.system x", "f.yaml:1:4: tag tag:yaml.org,2002:python"),
        ("a: !env {b: c}", "f.yaml:1:4: tag !env is not allowed"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: key `a` appears twice, first on line 1"),
        ("? [a]\n: b", 'f.yaml:1:3: key ["a"] is not a string'),
        ("<<: {a: b}", "f.yaml:1:1: merge keys (`<<`) are not supported in YAML 1.2"),
        ("a: *b", "f.yaml:1:4: alias *b refers to nothing before it"),
        ("a: &a [*a]", "f.yaml:1:8: alias *a contains itself"),
        ("a: [1", "f.yaml:1:4: invalid YAML: a list in brackets starts here and is not closed"),
        ("a: echo b: c", "put the string in quotes"),
        ("a: \x00", "invalid YAML"),
    ],
)
def test_what_is_refused_has_its_place(text: str, told: str) -> None:
    assert told in refusal(text)


@pytest.mark.parametrize("text", ["[" * 500_000, "- " * 400_000, "{a: " * 200_000])
def test_brackets_without_end_are_refused_and_end_no_process(text: str) -> None:
    assert "nested more than 40 levels deep" in refusal(text)


def test_an_alias_bomb_is_refused_before_it_is_written_out() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    began = time.thread_time()
    assert f"more than {MOST_NODES:,} values" in refusal("\n".join(lines))
    assert time.thread_time() - began < 1


def test_an_alias_within_bounds_is_what_it_names() -> None:
    [node] = parse("a: &a {x: 1}\nb: *a\n", "f")
    assert plain(node) == {"a": {"x": 1}, "b": {"x": 1}}


def test_a_file_of_more_than_a_million_characters_is_refused() -> None:
    assert "at most 1,000,000 are allowed" in refusal("a: " + "x" * 1_000_000)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_problem(text: str) -> None:
    with suppress(Refused):
        for node in parse(text, "f.yaml"):
            plain(node)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("abc :-#'\"\n", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", min_size=1), inner),
    max_leaves=15,
)


@given(JSON)
def test_json_is_read_as_it_is(value: object) -> None:
    [node] = parse(json.dumps(value), "f.yaml")
    assert plain(node) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [b\0c]", "f.yaml:1:6: invalid YAML: character U+0000 is not allowed; delete it"),
        ("a:\n- é\x07", "f.yaml:2:4: invalid YAML: character U+0007 is not allowed; delete it"),
        ("a: \ud83d", "f.yaml:1:4: invalid YAML: character U+D83D is not allowed; delete it"),
    ],
)
def test_a_character_that_yaml_does_not_have_is_found(text: str, told: str) -> None:
    assert refusal(text) == told
