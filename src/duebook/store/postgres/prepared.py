"""Statements that a connection prepares when it first needs them, so that the server plans each
only once; and how they are put into a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.store.queries import names_of, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from duebook.store.postgres.connection import Connection

__all__ = ["Prepared", "Statement", "prepared", "send_prepared"]

_ARRAY: Final = re.compile(r":(\w+)::(\w+\[\])")
_KINDS: Final = {
    "admitted": "boolean",
    "at": "timestamptz",
    "clock": "timestamptz",
    "here": "timestamptz",
    "lease": "interval",
    "leads": "boolean",
    "limit": "bigint",
    "now": "timestamptz",
    "straight": "bigint",
}
"""The types of values whose first use in a statement does not show them; the server infers the
others."""


class Prepared(NamedTuple):
    """A statement that connections keep."""

    name: str
    preparation: str
    execution: bytes
    """in the driver's form for values"""


class Statement(NamedTuple):
    """One statement of a message, with its values."""

    text: str
    prepared: Prepared | None = None


def prepared(query: str, sql: str) -> Prepared:
    names = names_of(sql)
    kinds: dict[str, str] = _KINDS | dict(_ARRAY.findall(sql))
    given = ", ".join(kinds.get(name, "unknown") for name in names)
    values = ", ".join(f"%({name})s" for name in names)
    name = f"duebook_{query}"
    head = f"PREPARE {name} ({given})" if names else f"PREPARE {name}"
    call = f"EXECUTE {name} ({values})" if names else f"EXECUTE {name}"
    return Prepared(name, f"{head} AS {numbered(sql)}", call.encode())


def send_prepared(
    connection: Connection, statements: Sequence[Statement], begin: str = ""
) -> psycopg.Cursor[tuple[Any, ...]]:
    """In one message, after `begin`, each with the preparation that the connection lacks."""
    known = connection.prepared
    texts, done = [], set(known or ())
    for text, needed in statements:
        if needed is not None and needed.name not in done:
            texts.append(needed.preparation)
            done.add(needed.name)
        texts.append(text)
    if known is None and done:  # the previous message failed, and what it prepared is unknown
        texts.insert(0, "DEALLOCATE ALL")
    if done != known:
        connection.prepared = None
    cursor = connection.execute((begin + "; ".join(texts)).encode(connection.info.encoding))
    if done:
        connection.prepared = done
    return cursor
