"""Lists the audit log, and writes the entry of every use case that changes something."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted
from duebook.model.change import KINDS, Change, ChangeFilter
from duebook.model.declaration import changed_fields
from duebook.model.fields import read_instant, whole
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import Store, Tx
    from duebook.store.values import NewSchedule

    Changes = Listing[Change]  # inside the class below `list` is a method

__all__ = ["PEOPLE", "SHARED", "Audit", "Auditor", "ScheduleAudit"]

LONGEST: Final = 200
MOST_LISTED: Final = 10_000
SCHEDULE: Final = "schedule"
PEOPLE: Final = ("token:", "cli:")
"""How the names of remote and command-line users start; programs have other names."""
SHARED: Final = ""
"""The namespace of objects that all namespaces share."""


class Auditor:
    """Records who did what, in the transaction that does it."""

    def __init__(self, namespace: str, by: str) -> None:
        self.namespace = namespace
        self.by = by

    def note(
        self,
        tx: Tx,
        action: str,
        kind: str,
        subject: str,
        subject_id: str = "",
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        by: str = "",
    ) -> None:
        """Write one entry; `before` and `after` are JSON without secrets."""
        made = by or self.by, self.namespace, action, kind, subject, subject_id
        tx.audit.record([Change(0, tx.now, *made, before, after)])


class ScheduleAudit(Auditor):
    """Writes the audit entries of schedules."""

    def created(self, tx: Tx, made: Sequence[NewSchedule], by: str) -> None:
        common = tx.now, by or self.by, self.namespace, "create", SCHEDULE
        tx.audit.record(
            [Change(0, *common, new.name, new.id, None, new.spec.to_shown()) for new in made]
        )

    def edited(self, tx: Tx, edits: Sequence[tuple[Schedule, ScheduleSpec, ScheduleSpec]]) -> None:
        """Record schedules with their former and new definitions."""
        common = tx.now, self.by, self.namespace, "update", SCHEDULE
        tx.audit.record(
            [
                Change(0, *common, schedule.name, schedule.id, *changed_fields(was, is_now))
                for schedule, was, is_now in edits
            ]
        )

    def adopted(self, tx: Tx, schedules: Sequence[Schedule], owner: str) -> None:
        """Record that another owner declares them from now on."""
        common, after = (tx.now, self.by, self.namespace, "adopt", SCHEDULE), {"owner": owner}
        tx.audit.record(
            [Change(0, *common, s.name, s.id, {"owner": s.owner}, after) for s in schedules]
        )

    def deleted(self, tx: Tx, schedules: Sequence[Schedule]) -> None:
        common = tx.now, self.by, self.namespace, "delete", SCHEDULE
        tx.audit.record(
            [
                Change(0, *common, s.name, s.id, s.spec.to_shown() if s.spec else {}, None)
                for s in schedules
            ]
        )

    def acted_on(
        self, tx: Tx, action: str, done: Sequence[tuple[Snapshot, str]], **more: Any
    ) -> None:
        """Record a change of status; each schedule is given with its new one."""
        common = tx.now, self.by, self.namespace, action, SCHEDULE
        given = _given(more)
        tx.audit.record(
            [
                Change(
                    0,
                    *common,
                    s.name,
                    s.schedule_id,
                    {"status": s.status},
                    {"status": is_now} | given,
                )
                for s, is_now in done
            ]
        )

    def told(self, tx: Tx, action: str, snapshot: Snapshot, **more: Any) -> None:
        self.note(tx, action, SCHEDULE, snapshot.name, snapshot.schedule_id, after=_given(more))

    def moved(
        self, tx: Tx, action: str, snapshot: Snapshot, was: datetime, is_now: datetime | None
    ) -> None:
        """Record a change of its next due time."""
        before = {"next_due_at": format_instant(was)}
        after = {"next_due_at": is_now and format_instant(is_now)}
        self.note(tx, action, SCHEDULE, snapshot.name, snapshot.schedule_id, before, after)


class Audit:
    """Who changed what in a namespace; kept as long as runs."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def list(
        self,
        kind: str | None = None,
        subject: str | None = None,
        by: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
        everywhere: bool = False,
    ) -> Changes:
        """Return entries, newest first; `everywhere` includes those of other namespaces and of
        shared objects.

        Pass `next_cursor` for the next page; a page may be short and still be followed by another.
        Raises Invalid, and BadCursor for a cursor of another query.
        """
        whole(1, MOST_LISTED)("limit", limit)
        if kind is not None and kind not in KINDS:
            raise Invalid(f"kind {quoted(kind)} is not one of {', '.join(KINDS)}")
        wanted = ChangeFilter(
            kind,
            _text("subject", subject),
            _text("by", by),
            None if since is None else read_instant("since", since),
            None if until is None else read_instant("until", until),
        )
        namespace = None if everywhere else self._namespace
        asked = ["audit", namespace, wanted.asked]
        key = self._store.cursor_key()
        after = read_cursor(key, asked, cursor, "ii")
        found = self._store.read(lambda tx: tx.audit.list_changes(namespace, wanted, after, limit))
        return Listing(found.rows, write_cursor(key, asked, found.last))


def _given(more: dict[str, Any]) -> dict[str, Any]:
    """The values that are not None, as JSON."""
    return {
        key: format_instant(value) if isinstance(value, datetime) else value
        for key, value in more.items()
        if value is not None
    }


def _text(key: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= LONGEST):
        return value
    raise Invalid(f"{key} {quoted(value)} is not a string of up to {LONGEST} characters")
