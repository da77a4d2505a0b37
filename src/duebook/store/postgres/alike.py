"""Many rows of few kinds as values of a statement: the columns common to a kind are sent once.

A server takes longer to read a thousand equal values than to compare a number a thousand times.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.sql.statements import Row, Values

__all__ = ["Alike"]

MANY: Final = 50
"""Rows from which grouping by kind pays off."""
MOST_KINDS: Final = 8
"""Maximum kinds, as the statement compares each row with every kind."""


class Alike:
    """The columns of some rows: `own` ones, which differ from row to row, and the others."""

    def __init__(self, columns: Sequence[str], own: Sequence[str]) -> None:
        self._own = tuple(own)
        self._shared = tuple(name for name in columns if name not in own)
        self._own_of = itemgetter(*map(columns.index, self._own))
        self._kind_of = itemgetter(*map(columns.index, self._shared))

    def values(self, rows: Sequence[Row]) -> Values | None:
        """A list per own column, a list per column common to a kind, and `kind`: the number of each
        row's kind, from 1. None if there are few rows, or too many kinds."""
        if len(rows) < MANY:
            return None
        kinds: dict[Row, int] = {}
        number = [kinds.setdefault(self._kind_of(row), len(kinds) + 1) for row in rows]
        if len(kinds) > MOST_KINDS:
            return None
        own = zip(*map(self._own_of, rows), strict=True)
        shared = zip(*kinds, strict=True)
        found = dict(zip(self._own, own, strict=True)) | dict(
            zip(self._shared, shared, strict=True)
        )
        return found | {"kind": number}
