"""Maintenance windows as values: when they start and end, and which schedules they pause."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from duebook.errors import Invalid, quoted
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.model.fields import read_title
from duebook.model.plan import WindowSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MaintenanceWindow", "check_window_name", "spans_for", "without_overlap"]


@shown("Window")
@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A stretch of time in which the schedules with all of its labels are paused."""

    namespace: Name
    name: str
    labels: dict[str, str]
    """empty: every schedule of the namespace"""
    start_at: datetime
    end_at: Annotated[datetime, Shown("The first instant after it.")]
    created_at: datetime
    created_by: str

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it pauses a schedule with these labels."""
        return self.labels.items() <= labels.items()

    def state(self, now: datetime) -> str:
        if now < self.start_at:
            return "planned"
        return "open" if now < self.end_at else "over"


def check_window_name(value: object) -> str:
    """One line of text; raises Invalid."""
    name = read_title("name", value)
    if not name or "/" in name:
        raise Invalid(f"name {quoted(value)} is not 1 to 200 characters without a slash")
    return name


def spans_for(
    windows: Iterable[MaintenanceWindow], labels: Mapping[str, str]
) -> tuple[WindowSpan, ...]:
    """When a schedule with these labels is paused, in order."""
    return without_overlap(
        WindowSpan(window.name, window.start_at, window.end_at)
        for window in windows
        if window.selects(labels)
    )


def without_overlap(windows: Iterable[WindowSpan]) -> tuple[WindowSpan, ...]:
    """In their order; where two overlap, the one that started first counts."""
    found: list[WindowSpan] = []
    for window in sorted(windows, key=lambda w: (w.start, w.end)):
        start = max(window.start, found[-1].end) if found else window.start
        if start < window.end:
            found.append(window._replace(start=start))
    return tuple(found)
