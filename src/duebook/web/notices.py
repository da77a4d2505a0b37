"""The notice after an action on a schedule, with the form to undo it; shows only fixed texts."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from duebook.errors import InvalidTime, counted
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.schedule import Schedule

__all__ = ["LONGEST_REASON", "Notice", "count_of", "notice_of"]

LONGEST: Final = 60
WORDS: Final = {
    "pause": "Paused. Due times wait until it is resumed.",
    "resume": "Resumed.",
    "run": "Run queued.",
    "move": "The next due time was moved.",
    "move-again": "The next due time was moved.",
    "move-now": "The next due time was moved to now.",
    "skip-next": "The next due time will be skipped.",
    "restore": "The due time was restored.",
    "create": "Created.",
    "again": "Created again; its earlier runs stay with the deleted schedule.",
    "edit": "The new definition is in use.",
    "version": "The earlier version was restored.",
}
UNDONE_BY: Final = {
    "pause": "resume",
    "resume": "pause",
    "move": "restore",
    "move-again": "move",
    "skip-next": "restore",
    "create": "delete",
    "edit": "version",
    "version": "version",
    "backfill": "undo-backfill",
    "approve": "undo-backfill",
}
NEEDS: Final = {
    "restore": ("at",),
    "move": ("at", "due"),
    "version": ("version",),
    "undo-backfill": ("since", "until", "at"),
}
"""Fields that the undo form must contain."""
MAY_SAY: Final = {"resume": ("since",), "pause": ("reason", "until")}
"""Optional fields: which pause an undo ends, and which pause it restores."""
LONGEST_REASON: Final = 500
"""Characters of the reason when an undo restores a pause."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What was done, and how to undo it."""

    words: str
    undo: tuple[str, ...] = ()
    """the path of the undo action; empty if it cannot be undone"""
    fields: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    """the run that it created"""
    missed: Mapping[str, str] = field(default_factory=dict)
    """the range of due times that an edit leaves to a backfill"""


def notice_of(schedule: Schedule, given: Mapping[str, str]) -> Notice | None:
    """The notice for what a URL says was done to a schedule; None if it says nothing."""
    done, run = given.get("done", ""), given.get("run", "")[:LONGEST]
    words = _words(done, given)
    if words is None or _over(done, schedule):
        return None
    if done == "run":
        return Notice(words, ("runs", run, "cancel") if run else (), run=run)
    undo = UNDONE_BY.get(done, "")
    fields = {name: given.get(name, "")[:LONGEST] for name in NEEDS.get(undo, ())}
    stale = undo == "version" and fields["version"] != str(schedule.version - 1)
    stale = stale or (undo == "delete" and schedule.version != 1)
    missed = _missed(given) if done == "edit" else {}
    if not undo or stale or not all(fields.values()):
        return Notice(words, missed=missed)
    besides = _besides(schedule, undo, given)
    return Notice(words, ("schedules", schedule.name, undo), fields | besides, missed=missed)


def _missed(given: Mapping[str, str]) -> dict[str, str]:
    """The range that a URL names, as the fields of the backfill page."""
    try:
        span = [format_instant(parse_instant(given.get(name, ""))) for name in ("since", "until")]
    except InvalidTime:
        return {}
    return dict(zip(("from", "to"), span, strict=True))


def _over(done: str, schedule: Schedule) -> bool:
    """Whether the opposite has been done since, so that the notice is no longer true."""
    paused = schedule.status == "paused"
    return (done == "pause" and not paused) or (done == "resume" and paused)


def _besides(schedule: Schedule, undo: str, given: Mapping[str, str]) -> dict[str, str]:
    """The fields that limit an undo to this action, so that later changes of others survive."""
    if undo == "version":
        return {"over": str(schedule.version)}
    if undo == "delete":
        return {"version": str(schedule.version)}
    said = {name: given.get(name, "")[:LONGEST_REASON] for name in MAY_SAY.get(undo, ())}
    return {name: text for name, text in said.items() if text}


def _words(done: str, given: Mapping[str, str]) -> str | None:
    if done in ("backfill", "approve"):
        dropped = count_of(given.get("rejected"))
        others = f"; {counted(dropped, 'due time')} rejected" if dropped else ""
        return f"{counted(count_of(given.get('count')), 'run')} queued{others}."
    if done == "reject":
        return f"{counted(count_of(given.get('count')), 'due time')} rejected."
    if done == "undo-backfill":
        begun = count_of(given.get("begun"))
        late = f"; {counted(begun, 'run')} had already started" if begun else ""
        return f"{counted(count_of(given.get('cancelled')), 'run')} cancelled{late}."
    return WORDS.get(done)


def count_of(text: str | None) -> int:
    """A number from a URL; 0 for anything else."""
    known = text is not None and text.isascii() and text.isdecimal() and len(text) < 9
    return int(text) if text is not None and known else 0
