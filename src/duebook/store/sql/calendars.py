"""Calendars in a transaction, with the days they stand for; maintenance windows, and feeds."""

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
"""Of a calendar. Those who lock calendars lock all of these: the latest is another row after each
change, and who waited for it would have locked none."""


class Calendars(Part):
    """What schedules heed besides their own definitions."""

    def save_calendar(
        self,
        namespace: str,
        name: str,
        version: int,
        definition: dict[str, Any],
        days: DaySet,
        by: str,
    ) -> None:
        """Store the next version, and forget old ones; raises Conflict when another has been saved
        meanwhile."""
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
        """Nobody changes these calendars before this transaction ends."""
        self._db.all("hold_calendars", namespace=namespace, names=sorted(set(names)))

    def lock(self, namespace: str) -> None:
        """Nobody else changes calendars of the namespace, or begins to use them, before this
        transaction ends; what others did before can be read by the next statement."""
        self._db.all("lock_calendars", namespace=namespace)

    def find_calendars(self, namespace: str, names: Sequence[str]) -> dict[str, Calendar]:
        """Those of these names that there are, in their latest version."""
        rows = self._db.all("find_calendars", namespace=namespace, names=sorted(set(names)))
        return {row[1]: self._calendar(row) for row in rows}

    def outline_calendars(self, namespace: str) -> list[Calendar]:
        """All, by name, each in its latest version, with the texts of iCal files left empty."""
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
        """How many schedules use each calendar; without those that none uses."""
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
        """In the order of their beginnings."""
        return [self._window(row) for row in self._db.all("list_windows", namespace=namespace)]

    def list_windows_and(self, other: Ask, namespace: str) -> tuple[list[MaintenanceWindow], Row]:
        """As `list_windows`, with the one row of something else that is asked in the message."""
        ask = Ask("list_windows", {"namespace": namespace})
        windows, (row,) = self._db.together(ask, other)
        return [self._window(window) for window in windows], row

    def _window(self, row: Row) -> MaintenanceWindow:
        namespace, name, labels, start_at, end_at, created_at, by = row
        time = self._db.time
        times = time(start_at), time(end_at), time(created_at)
        return MaintenanceWindow(namespace, name, json.loads(labels), *times, by)

    def end_window(self, namespace: str, name: str) -> None:
        """It is over from now on."""
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
        """Whether there was one."""
        return self._db.run("remove_feed", namespace=namespace, name=without_nul(name)) == 1
