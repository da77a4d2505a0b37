"""The named SQL of the stores: complete, described, nothing left over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from duebook.store import queries
from duebook.store.postgres import statements as postgres
from duebook.store.queries import load_queries, names_of, percent_named, repeated
from duebook.store.sql.audit import NewChange
from duebook.store.sql.dialects import POSTGRES, SQLITE, Dialect
from duebook.store.sql.rows import MovedState, NewRun
from duebook.store.sql.statements import COMMON
from duebook.store.sqlite import statements as sqlite

HOME: Final = Path(queries.__file__).parent
DIALECTS: Final = {"sqlite": sqlite.QUERIES, "postgres": postgres.QUERIES}
CALL: Final = re.compile(r"_db\.(?:run|many|rows|insert|all|one|value)\(\s*\"(\w+)\"")
BLOCK: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def source(dialect: str) -> str:
    """The code that may use the statements of a dialect."""
    folders = (HOME / "sql", HOME / dialect)
    return "".join(p.read_text("utf-8") for f in folders for p in sorted(f.glob("*.py")))


def blocks() -> list[tuple[str, str]]:
    files = [HOME / "sql" / "queries.sql", *(HOME / name / "queries.sql" for name in DIALECTS)]
    return [block for file in files for block in BLOCK.findall(file.read_text("utf-8"))]


def statements() -> list[tuple[str, str]]:
    return [pair for dialect in DIALECTS.values() for pair in dialect.items()]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_is_used(dialect: str) -> None:
    quoted = set(re.findall(r"\"(\w+)\"", source(dialect)))
    assert sorted(set(DIALECTS[dialect]) - quoted) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_that_is_used_exists(dialect: str) -> None:
    called = set(CALL.findall(source(dialect)))
    assert len(called) > 20
    assert sorted(called - set(DIALECTS[dialect])) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_statement_stands_in_one_file(dialect: str) -> None:
    own = load_queries(HOME / dialect / "queries.sql")
    assert sorted(set(own) & set(COMMON)) == []


def plain(sql: str) -> str:
    """A statement of either dialect without idioms: no SQL, but equal where only they differ."""
    rows = re.sub(
        r"SELECT ([^()]*) FROM unnest\([^()]*\) AS v \([^()]*\)",
        lambda m: f"VALUES ({m[1].replace('v.', ':')})",
        " ".join(sql.split()),
    )
    return re.sub(r"\s*([(),])\s*", r"\1", SQLITE.translate(POSTGRES.translate(rows)))


def test_what_differs_only_in_idioms_stands_once() -> None:
    one, other = (load_queries(HOME / dialect / "queries.sql") for dialect in DIALECTS)
    both = one.keys() & other.keys()
    assert [name for name in sorted(both) if plain(one[name]) == plain(other[name])] == []


@pytest.mark.parametrize("name", ["list_exceptions", "list_events", "insert_log", "list_running"])
def test_idioms_would_be_found_in_the_files_of_both_dialects(name: str) -> None:
    assert sqlite.QUERIES[name] != postgres.QUERIES[name]
    assert plain(sqlite.QUERIES[name]) == plain(postgres.QUERIES[name])


IDIOMS: Final = [
    (
        "DELETE FROM t WHERE a = ANY (:ids::text[])",
        "DELETE FROM t WHERE a = ANY (:ids::text[])",
        "DELETE FROM t WHERE a IN (SELECT value FROM json_each(:ids))",
    ),
    (
        "SELECT w.value FROM unnest(:ids::text[]) AS w (value)",
        "SELECT w.value FROM unnest(:ids::text[]) AS w (value)",
        "SELECT w.value FROM json_each(:ids) AS w",
    ),
    (
        "SELECT octet_length(t.a) FROM t WHERE b > :now::timestamptz\nFOR UPDATE OF t SKIP LOCKED",
        "SELECT octet_length(t.a) FROM t WHERE b > :now::timestamptz\nFOR UPDATE OF t SKIP LOCKED",
        "SELECT length(CAST(t.a AS BLOB)) FROM t WHERE b > :now",
    ),
    (
        "INSERT INTO t (a, b, c) VALUES (:a::text[], 1, :c::int[])",
        "INSERT INTO t (a, b, c) SELECT v.a, 1, v.c FROM unnest(:a::text[], :c::int[]) AS v (a, c)",
        "INSERT INTO t (a, b, c) VALUES (:a, 1, :c)",
    ),
    (
        "INSERT INTO t (a, b) VALUES (:now::int[], :now::int[])",
        "INSERT INTO t (a, b) SELECT v.now, v.now FROM unnest(:now::int[]) AS v (now)",
        "INSERT INTO t (a, b) VALUES (:now, :now)",
    ),
    (
        "SELECT r.rowid FROM runs AS r INDEXED BY runs_active WHERE r.id = :id",
        "SELECT r.place FROM runs AS r WHERE r.id = :id",
        "SELECT r.rowid FROM runs AS r INDEXED BY runs_active WHERE r.id = :id",
    ),
]


@pytest.mark.parametrize(("shared", "of_postgres", "of_sqlite"), IDIOMS)
def test_an_idiom_becomes_what_each_database_reads(
    shared: str, of_postgres: str, of_sqlite: str
) -> None:
    assert POSTGRES.read({"get_a": shared}) == {"get_a": of_postgres}
    assert SQLITE.read({"get_a": shared}) == {"get_a": of_sqlite}


@pytest.mark.parametrize(
    ("dialect", "sql", "word"),
    [
        (SQLITE, "SELECT a FROM t WHERE b = ANY (:ids)", "ANY"),
        (SQLITE, "SELECT w.id FROM unnest(:ids::text[]) AS w (id)", "unnest"),
        (SQLITE, "SELECT a::text FROM t", "::"),
        (SQLITE, "SELECT a FROM t FOR NO KEY UPDATE", "FOR NO"),
        (SQLITE, "SELECT a FROM t FOR UPDATE NOWAIT", "NOWAIT"),
        (SQLITE, "SELECT least(a, b) FROM t", "least"),
        (POSTGRES, "SELECT value FROM json_each(:ids)", "json_each"),
        (POSTGRES, "INSERT INTO t (a) VALUES (lower(:a::text[]))", "VALUES"),
    ],
)
def test_what_a_database_would_not_understand_is_refused(
    dialect: Dialect, sql: str, word: str
) -> None:
    with pytest.raises(ValueError, match=f'^get_a: {dialect.name} does not .* "{word}'):
        dialect.read({"get_a": sql})


def test_a_query_has_a_purpose_on_one_line_and_is_one_statement() -> None:
    for name, body in blocks():
        first, second = body.splitlines()[:2]
        assert re.fullmatch(r"-- [A-Z].*[.?]", first), f"{name} says nothing about its purpose"
        assert not second.startswith("--"), name
        assert ";" not in body.split("\n", 1)[1], name
        assert re.match(r"[a-z]+_[a-z_]+$", name), f"{name} is not verb_noun"


def test_a_query_names_its_columns_and_binds_by_name() -> None:
    for name, sql in statements():
        plain = sql.replace("count(*)", "").replace("SELECT d.* FROM", "SELECT * FROM")
        if "run_details" in sql:  # a view, which names its columns
            plain = plain.replace("SELECT * FROM", "")
        plain = re.sub(r" \* \d", "", plain)  # a product
        assert "*" not in plain, name
        assert "?" not in sql, name
        if sql.startswith("INSERT"):
            assert re.match(r"INSERT INTO \w+ \(", sql), name


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


def test_statements_share_parts(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text(
        "-- part: columns\n-- Of a.\nb, c\n\n"
        "-- name: get_a\n-- Why.\nSELECT {columns} FROM a '{b}'\n"
    )
    assert load_queries(path) == {"get_a": "SELECT b, c FROM a '{b}'"}
    path.write_text("-- name: get_a\nSELECT {columns} FROM a\n")
    with pytest.raises(KeyError, match="columns"):
        load_queries(path)


def test_an_insert_of_one_row_becomes_one_of_several() -> None:
    sql = "INSERT INTO t (a, b) VALUES (?,\n 'x') ON CONFLICT (a) DO NOTHING"
    assert repeated(sql, 2) == (
        "INSERT INTO t (a, b) VALUES (?,\n 'x'), (?,\n 'x') ON CONFLICT (a) DO NOTHING"
    )


def test_names_become_those_of_psycopg_and_casts_stay() -> None:
    sql = "SELECT :a::text[], b % 2 FROM t WHERE c = :c AND d = :a"
    assert percent_named(sql) == (
        "SELECT %(a)s::text[], b %% 2 FROM t WHERE c = %(c)s AND d = %(a)s"
    )
    assert names_of(sql) == ["a", "c"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("insert_run", NewRun._fields),
        ("move_state", MovedState._fields),
        ("insert_change", NewChange._fields),
    ],
)
def test_the_values_of_a_row_are_in_the_order_of_its_statement(
    dialect: str, query: str, fields: tuple[str, ...]
) -> None:
    assert re.findall(r"(?<!:):(\w+)", DIALECTS[dialect][query]) == list(fields)
