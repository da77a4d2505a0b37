"""The named SQL of the SQLite store: complete, described, nothing left over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from duebook.store.queries import load_queries, repeated
from duebook.store.sqlite import statements
from duebook.store.sqlite.rows import MovedState, NewRun
from duebook.store.sqlite.statements import QUERIES

FILE: Final = Path(statements.__file__).with_name("queries.sql")
SOURCE: Final = "".join(path.read_text("utf-8") for path in sorted(FILE.parent.glob("*.py")))
CALLED: Final = set(
    re.findall(r"self\._(?:run|many|rows|insert|all|one|value)\(\s*\"(\w+)\"", SOURCE)
)
BLOCK: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(FILE.read_text("utf-8"))


def test_every_query_is_used() -> None:
    quoted = set(re.findall(r"\"(\w+)\"", SOURCE))
    assert sorted(set(QUERIES) - quoted) == []


def test_every_query_that_is_used_exists() -> None:
    assert len(CALLED) > 20
    assert sorted(CALLED - set(QUERIES)) == []


@pytest.mark.parametrize(("name", "body"), blocks())
def test_a_query_has_a_purpose_on_one_line_and_is_one_statement(name: str, body: str) -> None:
    first, second = body.splitlines()[:2]
    assert re.fullmatch(r"-- [A-Z].*[.?]", first), f"{name} says nothing about its purpose"
    assert not second.startswith("--")
    assert ";" not in QUERIES[name]
    assert re.match(r"[a-z]+_[a-z_]+$", name), "verb_noun"


@pytest.mark.parametrize(("name", "sql"), QUERIES.items())
def test_a_query_names_its_columns_and_binds_by_name(name: str, sql: str) -> None:
    plain = sql.replace("count(*)", "").replace("SELECT d.* FROM", "SELECT * FROM")
    if "run_details" in sql:  # a view, which names its columns
        plain = plain.replace("SELECT * FROM", "")
    assert "*" not in plain, name
    assert "?" not in sql
    if sql.startswith("INSERT"):
        assert re.match(r"INSERT INTO \w+ \(", sql)


def test_names_and_statements_are_read_without_comments(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text(
        "-- A file.\n\n-- name: get_a\n-- Why.\nSELECT 1\n\n-- name: get_b\nSELECT\n2\n"
    )
    assert load_queries(path) == {"get_a": "SELECT 1", "get_b": "SELECT\n2"}


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text("-- name: get_a\nSELECT 1\n-- name: get_a\nSELECT 2\n")
    with pytest.raises(ValueError, match="twice"):
        load_queries(path)


def test_an_insert_of_one_row_becomes_one_of_several() -> None:
    sql = "INSERT INTO t (a, b) VALUES (?,\n 'x') ON CONFLICT (a) DO NOTHING"
    assert repeated(sql, 2) == (
        "INSERT INTO t (a, b) VALUES (?,\n 'x'), (?,\n 'x') ON CONFLICT (a) DO NOTHING"
    )


@pytest.mark.parametrize(
    ("query", "fields"), [("insert_run", NewRun._fields), ("move_state", MovedState._fields)]
)
def test_the_values_of_a_row_are_in_the_order_of_its_statement(
    query: str, fields: tuple[str, ...]
) -> None:
    assert re.findall(r":(\w+)", QUERIES[query]) == list(fields)
