"""Searches an index for what filters ask for, within a bounded number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.model.listing import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.listing import PagePosition
    from duebook.store.sql.statements import Row

__all__ = ["look"]

MOST_LOOKED: Final = 10_000
"""Rows that one request looks at, unless it asks for more."""
PORTION: Final = 2_000


def look(
    read: Callable[[PagePosition | None, int], list[Row]],
    matches: Callable[[Row], bool],
    place_of: Callable[[Row], PagePosition],
    after: PagePosition | None,
    limit: int,
) -> Found[Row]:
    """Up to `limit` rows that match, in the order in which `read` returns them after a position."""
    found: list[Row] = []
    left, portion = max(MOST_LOOKED, limit + 1), limit + 1
    while True:
        rows = read(after, portion)
        for number, row in enumerate(rows, 1):
            after = place_of(row)
            if matches(row):
                found.append(row)
            if len(found) == limit:
                more = number < len(rows) or len(rows) == portion
                return Found(found, after if more else None)
        if len(rows) < portion:
            return Found(found, None)
        left -= portion
        if left <= 0:
            return Found(found, after)
        portion = min(max(4 * portion, 100), PORTION, left)
