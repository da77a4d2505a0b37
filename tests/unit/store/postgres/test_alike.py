"""Rows of few kinds: whatever is sent once, each row gets back all that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.store.postgres.alike import MANY, MOST_KINDS, Alike
from duebook.store.postgres.parts import NEW_RUNS
from duebook.store.postgres.statements import QUERIES
from duebook.store.queries import names_of
from duebook.store.sql.rows import NewRun

if TYPE_CHECKING:
    from duebook.store.sql.statements import Values

COLUMNS = ("id", "queue", "due_at", "task")
ALIKE = Alike(COLUMNS, ("due_at", "id"))


def rows_of(values: Values) -> list[tuple[Any, ...]]:
    """The rows, as the statement puts them together."""
    kinds = list(zip(values["queue"], values["task"], strict=True))
    told = zip(values["id"], values["due_at"], values["kind"], strict=True)
    return [(id_, kinds[kind - 1][0], due, kinds[kind - 1][1]) for id_, due, kind in told]


@given(
    st.lists(
        st.tuples(
            st.integers(), st.sampled_from("abc"), st.integers(), st.sampled_from([None, "x"])
        ),
        min_size=MANY,
    )
)
@settings(max_examples=20)
def test_every_row_comes_out_as_it_went_in(rows: list[tuple[Any, ...]]) -> None:
    values = ALIKE.values(rows)
    assert values is not None
    assert rows_of(values) == rows
    assert len(values["queue"]) <= 6


def test_few_rows_or_many_kinds_are_not_worth_it() -> None:
    row = (1, "default", 2, None)
    assert ALIKE.values([]) is None
    assert ALIKE.values([row] * (MANY - 1)) is None
    assert ALIKE.values([(n, f"q{n % MOST_KINDS}", n, None) for n in range(MANY)]) is not None
    assert ALIKE.values([(n, f"q{n % (MOST_KINDS + 1)}", n, None) for n in range(MANY)]) is None


def test_the_statement_takes_every_value_of_a_new_run() -> None:
    columns = tuple(range(len(NewRun._fields)))
    values = NEW_RUNS.values([columns] * MANY)
    assert values is not None
    assert sorted(values) == sorted(names_of(QUERIES["insert_alike"]))
