"""Searches runs, also by node and by the labels of their schedules, which the database has no
index for; and selects the runs of a bulk action, up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, NotFound
from duebook.lazy_dataclasses import dataclass
from duebook.model.listing import Listing
from duebook.web.labels import read_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.book import Book
    from duebook.model.run import Run

__all__ = ["ASKED", "MOST_AT_ONCE", "RunSearch", "read_search", "similar_names"]

ASKED: Final = ("schedule", "status", "origin", "queue", "flow", "label", "node", "from", "to")
"""The fields of the search form."""
PAGE: Final = 50
LOOKS: Final = (50, 200, 750)
"""Runs in each of the queries for one page."""
MOST_AT_ONCE: Final = 2_000
"""Runs that one form acts on, newest first."""
MOST_LOOKED: Final = 20_000
"""Runs that are searched for them."""
AT_ONCE: Final = 1_000
NAMED: Final = 8
"""Schedules that are suggested for a part of a name."""


@dataclass(frozen=True, slots=True)
class RunSearch:
    """Criteria that runs must meet."""

    schedule: str
    """the name or id of a schedule, or a unique part of its name; empty for all"""
    filters: Mapping[str, Any]
    """criteria that the database checks"""
    labels: tuple[tuple[str, str], ...] = ()
    node: str = ""

    def page(self, book: Book, cursor: str | None) -> Listing[Run]:
        """A page of runs; as the search is bounded, it may be short although more runs follow.
        Raises Invalid and NotFound."""
        meant = self._meant(book)
        if not self.labels and not self.node:
            return book.runs.list(meant, PAGE, cursor=cursor, **self.filters)
        rows: list[Run] = []
        for most in LOOKS:
            looked = book.runs.list(meant, most, cursor=cursor, **self.filters)
            found = self._among(book, looked)[: PAGE - len(rows)]
            rows += found
            if len(rows) == PAGE and looked[-1] is not found[-1]:  # the page ends within this query
                until = looked.index(found[-1]) + 1
                looked = book.runs.list(meant, until, cursor=cursor, **self.filters)
            cursor = looked.next_cursor
            if len(rows) == PAGE or cursor is None:
                break
        return Listing(rows, cursor)

    def all_of(self, book: Book, fits: Callable[[Run], bool]) -> tuple[list[Run], bool]:
        """The runs that also fit, newest first, and whether these are all. Raises Invalid and
        NotFound."""
        rows: list[Run] = []
        meant, cursor, left = self._meant(book), None, MOST_LOOKED
        while left > 0:
            looked = book.runs.list(meant, AT_ONCE, cursor=cursor, **self.filters)
            rows += [run for run in self._among(book, looked) if fits(run)]
            cursor, left = looked.next_cursor, left - AT_ONCE
            if cursor is None or len(rows) > MOST_AT_ONCE:
                break
        return rows[:MOST_AT_ONCE], cursor is None and len(rows) <= MOST_AT_ONCE

    def _among(self, book: Book, runs: Sequence[Run]) -> list[Run]:
        found = [run for run in runs if not self.node or run.node == self.node]
        if not self.labels:
            return found
        labels = book.insights.labels(found)
        return [run for run in found if self._labelled(labels.get(run.id, {}))]

    def _labelled(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.labels)

    def _meant(self, book: Book) -> str | None:
        """The schedule's id, or the only name that contains the text; else the text itself."""
        if not self.schedule:
            return None
        try:
            return book.schedules.get(self.schedule).id
        except NotFound:
            names = similar_names(book, self.schedule)
            return names[0] if len(names) == 1 else self.schedule


def read_search(given: Mapping[str, str], read_time: Callable[[str, str], Any]) -> RunSearch:
    """A search from the fields of a form. Raises Invalid."""
    filters: dict[str, Any] = {
        name: given[name] for name in ("status", "origin", "queue", "flow") if given.get(name)
    }
    for field, name in (("since", "from"), ("until", "to")):
        if given.get(name):
            filters[field] = read_time(name, given[name])
    labels = tuple(read_pairs(given.get("label", "")).items())
    return RunSearch(given.get("schedule", ""), filters, labels, given.get("node", "").strip())


def similar_names(book: Book, text: str) -> list[str]:
    """The names of some schedules that contain a text."""
    try:
        return [found.name for found in book.schedules.list(text=text, limit=NAMED)] if text else []
    except Invalid:
        return []
