"""The text of a flow file is shown without its secrets, however YAML writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.build import build
from duebook.flows.problems import lines_of
from duebook.flows.redacted_source import show_source
from tests.support.waiting import takes_less_than

MARK = "s3cretMARK"


@pytest.mark.parametrize(
    "text",
    [
        f"env: {{DB_PASSWORD: 'a, {MARK}', DAY: x}}",
        f"DB_PASSWORD: a,#{MARK}]b",
        f"DB_PASSWORD: abc\n  and {MARK}\nday: x",
        f'DB_PASSWORD: "abc\n  and {MARK}"',
        f"password: [a, b, {MARK}]",
        f"password:\n- a\n- {MARK}",
        f"params:\n- name: DB_PASSWORD\n  type: string\n  default: {MARK}",
        f"params:\n- default: {MARK}\n  name: DB_PASSWORD",
        f"params:\n- name: pwd\n  enum: [a, '{MARK}']",
        f"params: [{{name: api_key, default: {MARK}}}]",
        f"params: >\n  DAY=x DB_PASSWORD={MARK}",
        f"params: A=1\n  DB_PASSWORD='x\n  {MARK}'",
        f"secret_key: |\n  a\n\n  {MARK}\nday: x",
        f"? secret_key\n: {MARK}",
        f"day: &a {MARK}\ntoken: *a",
        f"days: &a [1, {MARK}]\ntoken: *a",
        f"day: x{MARK}x\ntoken: {MARK}",
        f"headers: {{X-Any: {MARK}}}",
        f"url: https://example.com/?day=1&api_key={MARK}&x=y",
        f"# DB_PASSWORD: {MARK}",
        f"password: a, {MARK} # b\n\tbroken: [",
        f"broken: [}}\npassword: a, {MARK}]#{MARK}\nday: x",
        f"broken: [}}\nparams:\n- name: pwd\n  default: {MARK}\n",
        f"broken: [}}\npassword: a\n  {MARK}",
        f"password: [a, {MARK}",
        f'command: curl -d "{{\\"password\\": \\"{MARK}\\"}}"',
    ],
)
def test_a_secret_is_hidden_however_it_is_written(text: str) -> None:
    shown = show_source(text)
    assert MARK not in "\n".join(shown)
    assert "***" in "\n".join(shown)
    assert len(shown) == len(lines_of(text))


def test_the_rest_of_the_text_stays() -> None:
    text = "env: {DB_PASSWORD: 'a, b', DAY: x}\ntoken: ${TOKEN}\nsteps:\n- name: rotate-token\n"
    text += "  value: kept\n  command: make  # all\n"
    kept = text.replace("'a, b'", "***").replace("value: kept", "value: ***")
    assert show_source(text) == lines_of(kept)


def test_a_problem_does_not_repeat_a_secret() -> None:
    text = f"params:\n- name: DB_PASSWORD\n  type: integer\n  default: {MARK}\nsteps: [a]\n"
    (problem,) = build(text, "a.yaml", "a").problems
    assert MARK not in str(problem.to_json())
    assert "default *** is not a valid integer" in problem.message


def test_aliases_of_aliases_take_no_time() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    shown = show_source(f"a0: &a0 [{MARK}]\n{levels}token: *a29\n")
    assert MARK not in "\n".join(shown)


@pytest.mark.parametrize("between", [", ", ",\n"])
def test_a_text_of_secrets_takes_no_time(between: str) -> None:
    text = "[" + between.join(f"{{password: {MARK}{n:05}}}" for n in range(10_000)) + "]"
    assert takes_less_than(2.0, lambda: show_source(text))
    assert MARK not in "\n".join(show_source(text))


@given(st.text(alphabet="ab:-[]{}#,\"'|>&*?\n =token", max_size=60))
def test_any_text_keeps_its_lines(text: str) -> None:
    assert len(show_source(text)) == len(lines_of(text))
