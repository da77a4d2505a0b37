"""Runs by what the database keeps no order of: the labels of their schedules, and their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.listing import Listing
from duebook.web.labels import read_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.book import Book
    from duebook.model.run import Run

__all__ = ["look_on", "read_wanted"]

PORTION: Final = 50
MOST_LOOKS: Final = 20
"""Looks at the database for one page."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What runs must have besides what the database finds them by."""

    labels: tuple[tuple[str, str], ...]
    node: str

    def find(self, book: Book, runs: Sequence[Run]) -> list[Run]:
        found = [run for run in runs if not self.node or run.node == self.node]
        if not self.labels:
            return found
        labels = book.insights.labels(found)
        return [run for run in found if self._labelled(labels.get(run.id, {}))]

    def _labelled(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.labels)


def read_wanted(label: str | None, node: str | None) -> Wanted:
    """From the fields of a form; raises Invalid."""
    return Wanted(tuple(read_pairs(label or "").items()), (node or "").strip())


def look_on(
    book: Book,
    schedule: str | None,
    filters: Mapping[str, Any],
    wanted: Wanted,
    cursor: str | None,
) -> Listing[Run]:
    """A page of them; after a bounded look, it may be short while there is more to look at."""
    rows: list[Run] = []
    for _ in range(MOST_LOOKS):
        looked = book.runs.list(schedule, PORTION, cursor=cursor, **filters)
        cursor = looked.next_cursor
        rows += wanted.find(book, looked)
        if len(rows) >= PORTION or cursor is None:
            break
    return Listing(rows, cursor)
