"""Works inside a caller's own transaction: our schema applies only to the statements in between."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid
from duebook.store.outside import outside
from duebook.store.postgres.connection import SCHEMA
from duebook.store.postgres.hints import hint
from duebook.store.postgres.tx import PostgresTx
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from duebook.store.outside import Outside
    from duebook.store.postgres.statements import PostgresStatements

__all__ = ["joined"]

SENDER: Final = "outside"
"""The sender of hints from callers' transactions, so that this process receives them too."""
_LOOK: Final = (
    f"SELECT clock_timestamp(), to_regclass('{SCHEMA}.runs')::text, "
    "current_setting('search_path'), current_setting('timezone')"
).encode()
_SET: Final = (
    b"SELECT set_config('search_path', %(path)s, true), set_config('timezone', %(zone)s, true)"
)
_SETTING: Final = b"SELECT current_setting('search_path')"


@contextmanager
def joined(
    connection: object, make: Callable[[Outside, datetime], PostgresStatements]
) -> Iterator[PostgresTx]:
    """A Tx on the caller's connection; its hints are sent by the caller's commit."""
    theirs, _ = outside(connection, "postgresql", ("psycopg", "psycopg2"))
    ((now, books, path, zone),) = theirs.execute(_LOOK).fetchall()
    if books is None:
        raise Invalid("connection: its database has no Duebook schema")
    theirs.execute(_SET, {"path": SCHEMA, "zone": "UTC"})
    if theirs.execute(_SETTING).fetchall()[0][0] != SCHEMA:
        raise Invalid("connection: it is not in a transaction; begin one, or turn off autocommit")
    db = make(theirs, now.astimezone(UTC))
    try:
        yield PostgresTx(db)
        told = db.told & ~News.ENDS  # those who wait soon look by themselves
        if news := told | (News(0) if db.told_wake is None else News.WAKE):
            theirs.execute(hint(SENDER, news))
    finally:
        with suppress(Exception):  # a failed transaction drops the settings itself
            theirs.execute(_SET, {"path": path, "zone": zone})
