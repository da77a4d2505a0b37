"""Named outputs and files with variables are read as Dagu writes them, or fail with the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from duebook.engine.step_places import FlowPlaces, named_outputs, read_variables
from duebook.errors import Invalid
from duebook.model.flow import Flow, NamedOutput
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from pathlib import Path

WANTED = (NamedOutput("a"), NamedOutput("b", is_json=True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb={}\n", {"a": "1", "b": "{}"}),
        ("a=x=y\nb=[1]", {"a": "x=y", "b": "[1]"}),
        ('b<<E\n{\n"k": 1}\nE\na=\n', {"b": '{\n"k": 1}', "a": ""}),
    ],
)
def test_outputs_are_those_of_the_file(text: str, found: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "outputs"
    file.write_text(text)
    outcome = named_outputs(Outcome("succeeded", exit_code=0), str(file), WANTED)
    assert outcome.status == "succeeded"
    assert json.loads(outcome.output or "") == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=1\n", 'did not write the output "b"'),
        ("a=1\na=2\nb=1\n", '"a" more than once'),
        ("a=1\nb=1\nc=1\n", '"c", which is not declared'),
        ("a=1\nb=no\n", '"b" is not valid JSON'),
        ("a=1\n\nb=1\n", "is not NAME=value"),
        ("a<<E\n1\n", "no line E at its end"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_that_has_other_outputs_fails_the_step(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "outputs"
    file.write_bytes(text.encode(errors="surrogateescape"))
    outcome = named_outputs(Outcome("succeeded", exit_code=0), str(file), WANTED)
    assert (outcome.status, outcome.reason) == ("failed", "output")
    assert told in (outcome.error or "")


def test_a_step_that_failed_has_no_outputs(tmp_path: Path) -> None:
    failed = Outcome("failed", "exit_code", "exit code 1", 1)
    assert named_outputs(failed, str(tmp_path / "none"), WANTED) is failed


def test_variables_of_a_file_are_read_with_quotes_and_comments() -> None:
    text = "# a\nA=1 # one\nexport B='x # ${y}'\nC=\"two\\nlines\"\n\nA=2\n"
    assert read_variables(text) == {"A": "2", "B": "x # ${y}", "C": "two\nlines"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("what is this", 'the line "what is this" is not NAME=value'),
        ("A='x", "the value of A has an unclosed quote"),
        ("A=${B}", "the value of A names another"),
        ("DUEBOOK_URL=x", "starts with DUEBOOK_"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_without_its_value(text: str, told: str) -> None:
    with pytest.raises(Invalid, match=told.replace("$", r"\$")):
        read_variables(text)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("flows/a.yaml", "/srv/flows"),
        ("flows/x/y/a.yaml", "/srv/flows/x/y"),
        ("other/a.yaml", None),
    ],
)
def test_the_directory_of_a_flow_is_where_this_node_has_it(place: str, found: str | None) -> None:
    places = FlowPlaces({"flows": "/srv/flows"})
    assert places.directory_of(Flow("a", (), place=place)) == found
