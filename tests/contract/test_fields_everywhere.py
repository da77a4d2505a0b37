"""Every field of a definition is on every surface, because each surface is derived from the one
declaration; a field that is added there appears everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tools.derive import DERIVED, ROOT, derived_text

from duebook.api.schemas.definitions import (
    SPREAD,
    ScheduleChange,
    ScheduleCreation,
    ScheduleReplacement,
    TemplateDefaults,
)
from duebook.api.shapes import keys_of
from duebook.cli import main
from duebook.model.aliases import SHORT_FORMS, SWITCHES
from duebook.model.policies import Definition
from duebook.model.schedule import FIELDS, Schedule
from duebook.web.definitions import BLANK

if TYPE_CHECKING:
    from pathlib import Path

NEW = """    colour: Annotated[
        str,
        Declared(
            kinds.TEXT,
            "The colour of its line.",
            example="red",
            since="9.9",
            flow=InFlow("the colour of its graph", key="graph_colour"),
            enqueue=True,
        ),
    ] = ""
"""
PLACE = "    priority: Annotated["
NEW_OF_RUNS = '    sound: Annotated[str, Shown("Of its end.")] = ""\n'
PLACE_OF_RUNS = "\n    @property\n    def is_active"
USES_IT = """
import json, sys
from click.testing import CliRunner
from duebook.api.app import create_app
from duebook.cli import main
from duebook.flows.build import build
from duebook.flows.influence import INFLUENCE
from duebook.model.enqueued import enqueued_spec
from duebook.store.opening import open_store
from duebook.web.definitions import FIELDS, changes_of, texts_of
from tools.derive import derived_text

def run(*words):
    done = CliRunner().invoke(main, ["--database", sys.argv[1], *words])
    assert done.exit_code == 0, done.output
    return done.output

assert "--colour TEXT" in run("add", "--help")
run("add", "job", "--every", "1h", "--colour", "red", "--", "true")
assert json.loads(run("show", "job", "--json"))["colour"] == "red"
assert "colour red" in run("show", "job")
assert "colour" not in json.loads(run("update", "job", "--reset", "colour", "--json"))
run("update", "job", "--colour", "blue")
store = open_store(sys.argv[1])
document = json.dumps(create_app(store, None).openapi())
assert document.count('"The colour of its line."') >= 4
from duebook.book import Book
spec = Book(store).schedules.get("job").spec
assert texts_of(spec)["colour"] == "blue"
assert changes_of(spec, {"colour": "green"}) == {"colour": "green"}
assert "    colour: str" in derived_text("src/duebook/model/policies.py")
built = build("{graphColour: red, schedule: '@daily', steps: [a]}", "a.yaml", "a")
assert not built.problems, built.problems
assert built.flows[0].policies.colour == "red"
assert built.flows[0].schedule_form()["colour"] == "red"
assert INFLUENCE["A flow"]["graph_colour"] == "none"
run = Book(store).enqueue("paint", colour="red")
assert enqueued_spec("paint", json.dumps({"colour": "red"})).colour == "red"
from datetime import UTC, datetime
from duebook.model.codec import decode, encode
from duebook.model.run import Run
schema = create_app(store, None).openapi()["components"]["schemas"]
assert schema["Run"]["properties"]["sound"]["description"] == "Of its end."
assert "sound" in schema["RunDetails"]["required"]
at = datetime(2026, 1, 1, tzinfo=UTC)
run = Run("1", "default", None, None, None, None, "manual", "", "default", 0, "queued", 0, 0, 0,
          None, at, at, sound="bell")
assert encode(run)["sound"] == "bell"
assert decode(Run, encode(run)).sound == "bell"
row = "| `colour` | text |  | The colour of its line. Since 9.9. |"
assert row in derived_text("docs/definition.md")
"""


def options(command: str) -> set[str]:
    found = main.get_command(None, command)  # type: ignore[arg-type]
    assert found is not None
    return {parameter.name or "" for parameter in found.params}


@pytest.mark.parametrize("command", ["add", "update"])
def test_the_command_line_has_every_field(command: str) -> None:
    of_flows = {"stop", "restart"}  # which their files give
    assert FIELDS.keys() - of_flows - {"trigger", "target"} <= options(command)


@pytest.mark.parametrize("shape", [ScheduleCreation, ScheduleReplacement, ScheduleChange])
def test_the_document_of_the_api_has_every_field_and_short_form(shape: Any) -> None:
    given = FIELDS.keys() | SHORT_FORMS.keys() | SWITCHES.keys()
    assert given == keys_of(shape).keys() - {"name", "template", "replace", "version"}


def test_templates_and_answers_have_every_field() -> None:
    assert keys_of(TemplateDefaults).keys() == FIELDS.keys() | SHORT_FORMS.keys()
    assert FIELDS.keys() <= keys_of(Schedule, SPREAD).keys()


def test_the_form_of_the_dashboard_has_every_field() -> None:
    assert FIELDS.keys() == BLANK.keys()


def test_type_checkers_know_every_field_and_short_form() -> None:
    given = FIELDS.keys() | SHORT_FORMS.keys() | SWITCHES.keys()
    assert given == Definition.__annotations__.keys()


@pytest.mark.parametrize("path", DERIVED)
def test_what_is_derived_is_what_the_code_says(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == derived_text(path), "write it again: make derive"


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_says_in_one_sentence_what_it_is(name: str) -> None:
    assert re.fullmatch(r"[A-Z][^.]*\.", FIELDS[name].help)


def test_a_field_that_is_declared_is_on_every_surface(tmp_path: Path) -> None:
    for part in ("src", "tools", "docs"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("images"))
    place = tmp_path / "src" / "duebook" / "model" / "schedule.py"
    text = place.read_text("utf-8")
    assert text.count(PLACE) == 1
    place.write_text(text.replace(PLACE, NEW + PLACE), "utf-8")
    runs = tmp_path / "src" / "duebook" / "model" / "run.py"
    text = runs.read_text("utf-8")
    assert text.count(PLACE_OF_RUNS) == 1
    runs.write_text(text.replace(PLACE_OF_RUNS, NEW_OF_RUNS + PLACE_OF_RUNS), "utf-8")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", USES_IT, str(tmp_path / "books.db")],
        env=os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
