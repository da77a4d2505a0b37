"""Files that declare schedules: what is written is read again, and mistakes have a place."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.book.schedule_files import write_yaml
from duebook.cli.declaration_files import read_files, write_toml
from duebook.errors import Invalid
from duebook.flows.parse import parse, plain
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20) | st.sampled_from(
    ["", "1e3", "0o17", "0x1F", "12:30", "02:30", "no", "~", "null", "- a", "a: b", "# c", "*x",
     "<<", "2026-01-01", "a\nb\n", "a\n\n", " x ", "a\tb", "'", '"', "\\", "=", "1_000", ".5", "+1"]
)  # fmt: skip
KEYS = TEXTS.filter(lambda text: text != "<<")
SCALARS = TEXTS | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6)
LISTS = st.lists(SCALARS, max_size=3)
OBJECTS = st.dictionaries(KEYS, SCALARS | LISTS, max_size=3)
VALUES = SCALARS | LISTS | OBJECTS | st.lists(OBJECTS, max_size=2)
FORMS = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=3)


@given(FORMS)
def test_yaml_that_is_written_is_read_again(forms: list[dict[str, Any]]) -> None:
    (node,) = parse(write_yaml("billing", forms), "a.yaml")
    assert plain(node) == {"owner": "billing", "schedules": forms}


@given(FORMS)
def test_toml_that_is_written_is_read_again(forms: list[dict[str, Any]]) -> None:
    found = tomllib.loads(write_toml("billing", forms))
    assert found == {"owner": "billing", "schedules": forms}


def test_null_is_refused_in_toml() -> None:
    with pytest.raises(Invalid, match=r'schedule "job" has null .* use --format yaml'):
        write_toml(None, [{"name": "job", "payload": {"a": None}}])
    with pytest.raises(Invalid, match='calendar "holidays" has null'):
        write_toml(None, [], [{"name": "holidays", "days": [None]}])


def read(folder: Path, name: str, text: str) -> Any:
    (folder / name).write_text(text)
    return read_files([str(folder / name)])


def test_schedules_may_stand_by_their_names(tmp_path: Path) -> None:
    text = "schedules:\n  a:\n    target: x\n  b: {target: y}\n"
    found = read(tmp_path, "a.yaml", text)
    assert found.definitions == [{"name": "a", "target": "x"}, {"name": "b", "target": "y"}]
    assert [entry.line for entry in found.entries] == [2, 4]


def test_dates_and_times_of_toml_are_text(tmp_path: Path) -> None:
    text = (
        'owner = "o"\n[schedules.a]\nstart_at = 2026-12-01T00:00:00Z\nexclude = [2026-12-25]\n'
        "trigger = { daily = 07:00:00 }\n"
    )
    found = read(tmp_path, "a.toml", text)
    assert found.owner == "o"
    assert found.definitions == [
        {
            "name": "a",
            "start_at": "2026-12-01T00:00:00+00:00",
            "exclude": ["2026-12-25"],
            "trigger": {"daily": "07:00"},
        }
    ]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", "a: [", "a.yaml:1:"),
        ("a.yaml", "owner: x\nshedules: []", "a.yaml:2: `shedules` is unknown here; use owner"),
        ("a.yaml", "owner: 5", "owner 5 is not a string"),
        ("a.yaml", "5", "it is not a list of schedules"),
        ("a.yaml", "schedules: 5", "schedules 5 is not a list"),
        ("a.toml", "a = ", "it is not valid TOML"),
        ("a.json", "[1,", "it is not valid JSON"),
        ("a.json", "[" * 100_000, "it is not valid JSON: it is nested too deeply"),
        (
            "a.json",
            '[{"name": "a", "retry": 1, "retry": 2}]',
            "a: key `retry` appears twice",
        ),
        ("a.json", '{"schedules": [], "schedules": []}', "key `schedules` appears twice"),
        ("a.yaml", "", "a.yaml: it is empty; to declare no schedules, give `schedules` an empty"),
        ("a.json", "null", "a.json: it is empty"),
        ("a.toml", 'owner = "x"', "a.toml: `schedules` is missing"),
        ("a.yaml", "owner: x\nschedules:\n", "a.yaml: `schedules` has no value"),
        ("a.json", '{"items": [], "next_cursor": "x"}', "a.json: it is one page of several; exp"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    with pytest.raises(Invalid) as caught:
        read(tmp_path, name, text)
    assert told in str(caught.value)


def test_problems_are_placed_where_they_are(tmp_path: Path) -> None:
    found = read(tmp_path, "a.yaml", "- name: a\n  trigger: x\n- 5\n- target: x\n- name: 7\n")
    placed = found.placed(
        InvalidSchedule(
            {
                "schedules[0].trigger": "schedules[0]: trigger is wrong",
                "schedules[1]": "schedules[1]: 5 is not an object",
                "schedules[2].name": "schedules[2]: name is missing",
                "schedules[3].name": "schedules[3]: invalid name 7",
                "schedules": "and 3 more problems",
            }
        )
    )
    path = tmp_path / "a.yaml"
    assert list(placed.problems.values()) == [
        f"{path}:2: a: trigger is wrong",
        f"{path}:3: schedules[1]: 5 is not an object",
        f"{path}:4: schedules[2]: name is missing",
        f"{path}:5: schedules[3]: invalid name 7",
        "and 3 more problems",
    ]


def test_completed_schedules_of_a_list_are_left_out(tmp_path: Path) -> None:
    whole = {"id": "1", "version": 1, "name": "done", "status": "completed", "target": "x"}
    text = json.dumps([whole, whole | {"name": "going", "status": "paused", "enabled": False}])
    found = read(tmp_path, "a.json", text)
    assert found.definitions == [{"name": "going", "enabled": False, "target": "x"}]
    assert found.completed == ["done"]


def test_only_an_explicit_empty_list_declares_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "a.yaml", "schedules: []\n---\n").definitions == []
    assert read(tmp_path, "a.json", "[]").definitions == []
    assert read(tmp_path, "a.toml", write_toml(None, [])).definitions == []


def test_a_page_of_the_api_is_a_file(tmp_path: Path) -> None:
    page = {"items": [{"name": "a", "target": "x"}], "next_cursor": None}
    for name in ("a.json", "a.yaml"):
        assert read(tmp_path, name, json.dumps(page)).definitions == page["items"]
