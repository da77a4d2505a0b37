"""Calendars in a transaction, with their days; maintenance windows, and feeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Conflict, NotFound, shorten
from duebook.model.calendar import Calendar
from duebook.model.calendar_days import DaySet
from duebook.model.feed import Feed
from duebook.model.window import MaintenanceWindow
from duebook.store.sql.rows import clean, without_nul
from duebook.store.sql.statements import Ask, Part, Row
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["Calendars"]

KEPT_VERSIONS: Final = 20
"""Versions kept of a calendar. A lock on a calendar covers all of them, because each change adds a
new latest row: a lock on only the former one would protect nothing after a wait."""


class Calendars(Part):
    """What schedules depend on besides their own definitions."""

    def save_calendar(
        self,
        namespace: str,
        name: str,
        version: int,
        definition: dict[str, Any],
        days: DaySet,
        by: str,
    ) -> None:
        """Store the next version, and delete old ones; raises Conflict if another one has been
        saved meanwhile."""
        made = self._db.run(
            "insert_calendar",
            namespace=namespace,
            name=name,
            version=version,
            definition=json.dumps(definition),
            days=days.text,
            now=self._db.now,
            by=clean(by),
        )
        if not made:
            raise Conflict(f'calendar "{name}" has been changed in the meantime; look at it again')
        if (old := version - KEPT_VERSIONS) > 0:
            self._db.run("delete_old_calendars", namespace=namespace, name=name, version=old)

    def hold(self, namespace: str, names: Sequence[str]) -> None:
        """Keep these calendars from being changed before this transaction ends."""
        self._db.all("hold_calendars", namespace=namespace, names=sorted(set(names)))

    def lock(self, namespace: str) -> None:
        """Keep calendars of the namespace from being changed, or newly used, before this
        transaction ends; the next statement sees what others did before."""
        self._db.all("lock_calendars", namespace=namespace)

    def find_calendars(self, namespace: str, names: Sequence[str]) -> dict[str, Calendar]:
        """The existing ones of these names, in their latest version."""
        rows = self._db.all("find_calendars", namespace=namespace, names=sorted(set(names)))
        return {row[1]: self._calendar(row) for row in rows}

    def outline_calendars(self, namespace: str) -> list[Calendar]:
        """All, by name, each in its latest version, without the texts of iCal files."""
        rows = self._db.all("outline_calendars", namespace=namespace)
        return [self._calendar(row) for row in rows]

    def latest_versions(self, namespace: str) -> dict[str, int]:
        """The latest version of each, by name."""
        return dict(self._db.all("latest_calendar_versions", namespace=namespace))

    def _calendar(self, row: Row) -> Calendar:
        namespace, name, version, definition, text, created_at, by = row
        days, at = DaySet.load(text), self._db.time(created_at)
        return Calendar(namespace, name, version, json.loads(definition), len(days), at, by, days)

    def remove_calendar(self, namespace: str, name: str) -> None:
        self._db.run("remove_calendar", namespace=namespace, name=name)

    def list_users(self, namespace: str, names: Sequence[str]) -> list[str]:
        """The ids of schedules that use any of these calendars, in order."""
        wanted = {"namespace": namespace, "names": list(names)}
        return [id_ for (id_,) in self._db.all("list_calendar_users", **wanted)]

    def count_users(self, namespace: str) -> dict[str, int]:
        """How many schedules use each calendar; omits unused ones."""
        return dict(self._db.all("count_calendar_users", namespace=namespace))

    def list_versions(self, namespace: str, name: str, limit: int) -> list[Calendar]:
        """The versions of a calendar, the newest first."""
        place = {"namespace": namespace, "name": without_nul(name)}
        return [
            self._calendar(row)
            for row in self._db.all("list_calendar_versions", **place, limit=limit)
        ]

    # -- maintenance windows

    def add_window(self, window: MaintenanceWindow) -> None:
        """Raises Conflict when the name is taken."""
        made = self._db.run(
            "insert_window",
            namespace=window.namespace,
            name=window.name,
            labels=json.dumps(window.labels),
            start_at=window.start_at,
            end_at=window.end_at,
            now=self._db.now,
            by=clean(window.created_by),
        )
        if not made:
            raise Conflict(f'window "{window.name}" already exists; choose another name')

    def get_window(self, namespace: str, name: str) -> MaintenanceWindow:
        row = self._db.one("get_window", namespace=namespace, name=without_nul(name))
        if row is None:
            raise NotFound(f'window "{shorten(name)}" does not exist')
        return self._window(row)

    def list_windows(self, namespace: str) -> list[MaintenanceWindow]:
        """In order of their start."""
        return [self._window(row) for row in self._db.all("list_windows", namespace=namespace)]

    def list_windows_and(self, other: Ask, namespace: str) -> tuple[list[MaintenanceWindow], Row]:
        """Like `list_windows`, with a single row of another query in the same message."""
        ask = Ask("list_windows", {"namespace": namespace})
        windows, (row,) = self._db.together(ask, other)
        return [self._window(window) for window in windows], row

    def _window(self, row: Row) -> MaintenanceWindow:
        namespace, name, labels, start_at, end_at, created_at, by = row
        time = self._db.time
        times = time(start_at), time(end_at), time(created_at)
        return MaintenanceWindow(namespace, name, json.loads(labels), *times, by)

    def end_window(self, namespace: str, name: str) -> None:
        """End it now."""
        self._db.run("end_window", namespace=namespace, name=name, now=self._db.now)

    def remove_window(self, namespace: str, name: str) -> None:
        self._db.run("remove_window", namespace=namespace, name=name)

    def wake_selected(self, window: MaintenanceWindow) -> None:
        """Have the schedules that it selects planned again, and some others with one label."""
        place = {"namespace": window.namespace, "now": self._db.now}
        if window.labels:
            label, value = next(iter(window.labels.items()))
            self._db.run("wake_labelled", label=label, value=value, **place)
        else:
            self._db.run("wake_namespace", **place)
        self._db.notify(News.WAKE, self._db.now)

    # -- feeds

    def add_feed(self, feed: Feed, digest: str) -> None:
        """Raises Conflict when the name is taken."""
        made = self._db.run(
            "insert_feed",
            id=feed.id,
            namespace=feed.namespace,
            name=feed.name,
            labels=json.dumps(feed.labels),
            digest=digest,
            now=self._db.now,
            by=clean(feed.created_by),
        )
        if not made:
            raise Conflict(f'feed "{feed.name}" already exists; revoke it, or choose another name')

    def get_feed(self, feed_id: str) -> tuple[Feed, str] | None:
        """A feed and the digest of its secret."""
        row = self._db.one("get_feed", id=feed_id)
        return None if row is None else (self._feed(row[:-1]), row[-1])

    def list_feeds(self, namespace: str) -> list[Feed]:
        """By name."""
        return [self._feed(row) for row in self._db.all("list_feeds", namespace=namespace)]

    def _feed(self, row: Row) -> Feed:
        id_, namespace, name, labels, created_at, by = row
        made: datetime = self._db.time(created_at)
        return Feed(id_, namespace, name, json.loads(labels), made, by)

    def remove_feed(self, namespace: str, name: str) -> bool:
        """Whether it existed."""
        return self._db.run("remove_feed", namespace=namespace, name=without_nul(name)) == 1
