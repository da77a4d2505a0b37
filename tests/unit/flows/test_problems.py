"""A problem shows its line with a mark where it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.build import build
from duebook.flows.problems import Problem, lines_of


def shown(text: str) -> list[str]:
    return [line for problem in build(text, "a.yaml", "a").problems for line in problem.excerpt()]


def test_a_problem_marks_its_column() -> None:
    assert shown("steps:\n  - command: a\n    retires: 3\n") == [
        "  3 |     retires: 3",
        "    |     ^",
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028"])
def test_lines_are_those_of_yaml(end: str) -> None:
    assert shown(end.join(["name: a", "steps: [a]", "retires: 3"]))[0] == "  3 | retires: 3"
    assert lines_of(end.join("abc")) == ["a", "b", "c"]


def test_a_long_line_is_shown_around_its_mark_and_a_secret_not_at_all() -> None:
    long = f"steps: [{{command: {'a' * 100}, retires: 3, description: {'b' * 100}}}]"
    line, mark = shown(long)
    assert len(line) <= 80
    assert line[mark.index("^") :].startswith("retires: 3")
    assert "hunter22" not in "".join(shown("password: hunter22\nsteps: [a]"))


def test_a_file_as_a_whole_has_no_line() -> None:
    assert Problem("a.yaml", 0, 0, "", "it is not a file").excerpt() == []
    assert shown("") == []


@given(st.text(), st.integers(0, 3), st.integers(0, 700))
def test_any_line_fits(text: str, line: int, column: int) -> None:
    for told in Problem("a", line, column, "", "", "", text).excerpt():
        assert len(told) <= 80
