"""Writes imported schedules as a YAML file with comments, and as JSON; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book.schedule_files import write_yaml
from duebook.errors import printable
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from duebook.imports.found import Found, Import

__all__ = ["import_form", "import_yaml", "leave_past", "next_due"]

_HEAD: Final = "schedules:\n"
_BOUNDS: Final = ("start_at", "end_at")


def import_yaml(done: Import, owner: str, source: str) -> str:
    """A file for diff and apply. Comments name the origin of each schedule, and what is not carried
    over."""
    head = [f"Imported from {source}; check it with duebook diff FILE, then duebook apply FILE."]
    lines = [*_comments([*head, *done.notes]), write_yaml(owner, []).splitlines()[0]]
    lines.append("schedules:" if done.found else "schedules: []")
    for one in done.found:
        lines += _comments([one.place, *one.notes])
        item = write_yaml(None, [{"name": one.name, **one.form}])
        lines.append(item.removeprefix(_HEAD).rstrip("\n"))
    lines += _comments(f"left out: {one}" for one in done.left)
    return "\n".join(lines) + "\n"


def _comments(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield f"# {printable(text)}"


def import_form(done: Import, owner: str, now: datetime) -> dict[str, Any]:
    """The import as JSON."""
    return {
        "owner": owner,
        "schedules": [{"name": one.name, **one.form} for one in done.found],
        "notes": [
            *({"place": None, "schedule": None, "note": note} for note in done.notes),
            *(
                {"place": one.place, "schedule": one.name, "note": note}
                for one in done.found
                for note in one.notes
            ),
        ],
        "left_out": [{"place": one.place, "what": one.what, "why": one.why} for one in done.left],
        "next": {
            one.name: [format_instant(due) for due in next_due(one, now)] for one in done.found
        },
    }


def leave_past(done: Import, now: datetime) -> None:
    """Drop schedules that are never due again: a file with one of them would be refused."""
    past = [one for one in done.found if not next_due(one, now, 1)]
    done.found = [one for one in done.found if one not in past]
    for one in past:
        done.leave(one.place, one.name, "it is never due again")


def next_due(one: Found, now: datetime, number: int = 3) -> list[datetime]:
    """The next due times, with intervals counted from now unless they have an anchor."""
    first, last = (parse_instant(one.form[k]) if k in one.form else None for k in _BOUNDS)
    start = now if first is None or first <= now else first - timedelta(seconds=1)
    end = last or start.replace(year=9999)
    triggers = [trigger.anchored(now) for trigger in one.triggers]
    found = {due for trigger in triggers for due in trigger.between(start, end, number)}
    return sorted(found)[:number]
