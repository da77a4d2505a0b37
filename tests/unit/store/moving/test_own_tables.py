"""A user's own tables in the file of the books: they stay and are named, or come along whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.errors import Conflict, DuebookError, Invalid, NotFound
from tests.support.builders import add_schedule, claimed_run, get_runs

if TYPE_CHECKING:
    from tests.support.builders import VirtualClock
    from tests.unit.store.moving.conftest import Move

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
    "the ""total"" price" NUMERIC(10, 2) DEFAULT 0,
    weight REAL,
    paid BOOLEAN NOT NULL DEFAULT 0,
    note VARCHAR(20) DEFAULT 'it''s new',
    placed_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    seen_at DATETIME,
    day DATE,
    extra JSON,
    raw BLOB,
    anything
);
CREATE INDEX orders_by_customer ON orders (customer, day DESC);
CREATE INDEX orders_paid ON orders (paid) WHERE paid;
CREATE VIEW unpaid AS SELECT * FROM orders WHERE NOT paid;
CREATE TRIGGER note_order AFTER INSERT ON orders BEGIN SELECT 1; END;
INSERT INTO customers (name) VALUES ('ann'), ('bob'), ('gone');
DELETE FROM customers WHERE name = 'gone';
INSERT INTO orders VALUES
    (7, 1, 12.5, 0.25, 1, 'tab	and \\N', '2026-01-05 12:00:00', '2026-01-05T12:00:00+01:00',
        '2026-01-05', '{"a": [1]}', x'00ff', 5),
    (9, 2, NULL, 3, 0, NULL, '2026-01-05 12:00:00.5', NULL, NULL, NULL, NULL, NULL);
"""


def own(move: Move, script: str) -> None:
    move.old()
    with closing(sqlite3.connect(move.path)) as connection:
        connection.executescript(script)


def new_rows(move: Move, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(move.url, options="-c timezone=UTC") as connection:
        return connection.execute(sql.encode()).fetchall()


def test_what_is_the_user_s_own_stays_and_is_named(move: Move) -> None:
    own(move, SHOP)
    add_schedule(move.old())
    copied = move()
    assert copied.rows["schedules"] == 1
    assert {str(one) for one in copied.left} == {
        "table customers",
        "table orders",
        "index orders_by_customer",
        "index orders_paid",
        "view unpaid",
        "trigger note_order",
    }
    assert "note: table orders stays in" in "\n".join(move.said)
    assert new_rows(move, "SELECT to_regclass('orders')") == [(None,)]


def test_named_tables_come_along_with_their_types_keys_and_values(move: Move) -> None:
    own(move, SHOP)
    copied = move(with_tables=["orders", "Customers"])
    assert copied.tables == {"orders": 2, "customers": 2}
    assert {str(one) for one in copied.left} == {
        "index orders_paid",
        "view unpaid",
        "trigger note_order",
    }
    assert new_rows(move, "SELECT * FROM public.orders ORDER BY id") == [
        (
            *(7, 1, Decimal("12.5"), 0.25, True, "tab\tand \\N", datetime(2026, 1, 5, 12)),
            *(datetime(2026, 1, 5, 11, tzinfo=UTC), date(2026, 1, 5), {"a": [1]}, b"\0\xff", 5),
        ),
        (9, 2, None, 3.0, False, None, datetime(2026, 1, 5, 12, 0, 0, 500_000), *[None] * 5),
    ]
    insert = "INSERT INTO orders (customer) VALUES (1) RETURNING id, note, paid, 'x' || placed_at"
    with psycopg.connect(move.url) as connection:
        (found,) = connection.execute(insert.encode()).fetchall()
        assert (found[:3], found[3] > "x2026") == ((10, "it's new", False), True)
        with pytest.raises(psycopg.errors.ForeignKeyViolation), connection.transaction():
            connection.execute("INSERT INTO orders (customer) VALUES (77)")
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute("INSERT INTO customers (name) VALUES ('ann')")
        connection.execute("DELETE FROM customers WHERE id = 2")
        assert connection.execute("SELECT id FROM orders ORDER BY 1").fetchall() == [(7,), (10,)]


def test_tables_without_row_numbers_and_with_strange_names_come_along(move: Move) -> None:
    own(
        move,
        """
        CREATE TABLE "Select; --" ("from" TEXT, "rowid" INT, PRIMARY KEY ("from", "rowid"))
            WITHOUT ROWID;
        INSERT INTO "Select; --" VALUES ('a', 1), ('b', 2);
        CREATE TABLE empty (x, y GENERATED ALWAYS AS (x + 1));
        """,
    )
    copied = move(with_tables=["Select; --", "empty"])
    assert copied.tables == {"Select; --": 2, "empty": 0}
    assert [str(one) for one in copied.left] == ["generated column empty.y"]
    sql = 'SELECT "from", "rowid" FROM "Select; --" ORDER BY 1'
    assert new_rows(move, sql) == [("a", 1), ("b", 2)]


MISFITS = [
    ("n INT", "'x'", 'table t, column n, row 1: "x" is not a valid bigint'),
    ("d DATE", "'soon'", 'column d, row 1: "soon" is not a valid date'),
    ("b BOOL", "1), (2", "column b, row 2: 2 is not a valid boolean"),
    ("x TEXT", "char(0)", "column x, row 1"),
    ("x TEXT", "CAST(x'ff' AS TEXT)", "column x, row 1"),
    ("k TEXT PRIMARY KEY", "NULL", "column k, row 1: it is NULL"),
    ("j JSON", "'{'", "column j, row 1"),
    ("at TIMESTAMP", "5", "5 is not a valid timestamp, the PostgreSQL type for TIMESTAMP"),
    ("x", "5), ('a'", "5 is not a valid text, the PostgreSQL type for no type"),
    (
        "k INTEGER PRIMARY KEY, up INTEGER REFERENCES t",
        "1, 2",
        "row 1: the row that it refers to in t",
    ),
    ("ctid TEXT", "'a'", "PostgreSQL rejected table t"),
    ("x" * 64, "1", "longer than the 63 bytes"),
]
"""Columns, a row, and what is said of it."""


def test_what_does_not_fit_is_refused_before_anybody_waits(move: Move, clock: VirtualClock) -> None:
    claimed_run(move.old(), clock)  # it would be waited for
    for columns, row, said in MISFITS:
        own(move, f"CREATE TABLE t ({columns}); INSERT INTO t VALUES ({row})")  # noqa: S608
        with pytest.raises(Conflict) as raised:
            move(with_tables=["t"])
        assert said in str(raised.value)
        own(move, "DROP TABLE t")
    assert move.moment == 0
    assert not any("waiting" in text for text in move.said)
    assert len(get_runs(move.old())) == 1, "the old books are open"
    assert new_rows(move, "SELECT to_regclass('t')") == [(None,)]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("nowhere", NotFound, "your own tables are: customers, orders"),
        ("schedules", Invalid, "belongs to Duebook"),
        ("unpaid", Invalid, "is a view"),
    ],
)
def test_a_name_that_is_no_table_of_the_user_s_is_refused(
    move: Move, name: str, kind: type[DuebookError], words: str
) -> None:
    own(move, SHOP)
    with pytest.raises(kind, match=words):
        move(with_tables=[name])
    assert move.old()


def test_a_table_that_is_there_already_is_refused(move: Move) -> None:
    own(move, SHOP)
    with psycopg.connect(move.url) as connection:
        connection.execute("CREATE TABLE orders (id int)")
    with pytest.raises(Conflict, match='schema "public" already has "orders"'):
        move(with_tables=["orders"])
    move()


def test_a_table_that_is_written_to_meanwhile_is_not_kept(move: Move) -> None:
    own(move, SHOP)
    wrote = []

    def write() -> None:
        with closing(sqlite3.connect(move.path)) as connection, connection:
            connection.execute("INSERT INTO customers (name) VALUES ('late')")
        wrote.append(1)

    said = move.said.append

    def say(text: str) -> None:
        said(text)
        if "copied your table" in text and not wrote:
            write()

    vars(move)["said"] = type("Said", (list,), {"append": lambda _, text: say(text)})()
    with pytest.raises(Conflict, match="was written to while customers was copied"):
        move(with_tables=["customers"])
    assert move.old(), "the old books are open"
    assert move(with_tables=["customers"]).tables == {"customers": 3}


def test_a_copy_that_broke_off_takes_the_tables_along_when_it_is_repeated(move: Move) -> None:
    own(move, SHOP)
    with move.source() as source, move.target() as target:
        source.close_when_idle(source.begin(target.place))  # and then it was killed
    assert move(with_tables=["customers"]).tables == {"customers": 2}
    assert any("it is repeated" in text for text in move.said)


def test_a_copy_that_is_kept_cannot_carry_more(move: Move) -> None:
    own(move, SHOP)
    move(with_tables=["customers"])
    assert move(with_tables=["customers"]).rows == {}, "it is done"
    with pytest.raises(Conflict, match="without table orders"):
        move(with_tables=["orders"])
