"""Finds schedules whose last run failed, one page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.model.filters import load_schedule_filter
from duebook.model.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.book import Book
    from duebook.model.filters import ScheduleFilter
    from duebook.model.schedule import Schedule

__all__ = ["failing"]

LOOKED: Final = 1_000
"""How many of the newest failed runs are searched for schedules."""
PAGE: Final = 50


def failing(book: Book, after: str, filters: Mapping[str, Any]) -> Listing[Schedule]:
    """A page of failing schedules in order of name, after the name `after`. Raises Invalid."""
    wanted = load_schedule_filter(dict(filters))
    rows: list[Schedule] = []
    for schedule in book.insights.failing(LOOKED):
        if schedule.name > after and _fits(schedule, wanted):
            if len(rows) == PAGE:
                return Listing(rows, rows[-1].name)
            rows.append(schedule)
    return Listing(rows)


def _fits(schedule: Schedule, wanted: ScheduleFilter) -> bool:
    spec = schedule.spec
    title = spec.title or "" if spec else ""
    texts = f"{schedule.name}\n{title}".lower()
    return (
        wanted.text in texts
        and schedule.name.startswith(wanted.prefix)
        and wanted.status in (None, schedule.status)
        and set(wanted.labels) <= set(spec.labels if spec else ())
        and (wanted.problem is None or wanted.problem == (schedule.problem is not None))
        and (wanted.target is None or _runs(schedule, wanted.target))
    )


def _runs(schedule: Schedule, wanted: str) -> bool:
    form = schedule.spec.to_json()["target"] if schedule.spec else {}
    target = {"task": form} if isinstance(form, str) else form
    kind, _, name = wanted.partition(":")
    kinds = ("command", "shell") if kind == "command" else (kind,)
    return any(one in target for one in kinds) and (not name or target.get(kind) == name)
