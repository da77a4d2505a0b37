"""What people do with feeds, and the iCal file that a feed opens: due times to come, and
maintenance windows."""

from __future__ import annotations

import hmac
import secrets
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.book.audit import Auditor
from duebook.errors import NotFound, shorten
from duebook.ids import check_name, new_id
from duebook.model.access import digest_of, secret_text, split_secret
from duebook.model.feed import Feed
from duebook.model.fields import read_labels
from duebook.model.filters import load_schedule_filter
from duebook.model.window import spans_for
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.window import MaintenanceWindow
    from duebook.store.base import Store, Tx

    FeedList = list[Feed]  # inside the class below `list` is a method

__all__ = ["Feeds", "read_feed"]

AHEAD: Final = timedelta(days=60)
BUSIEST: Final = 24
"""Due times in a day, beyond which a schedule is not shown: nobody could read the rest."""
MOST_EACH: Final = 200
MOST_SCHEDULES: Final = 1_000
_DAY: Final = timedelta(days=1)


class Feeds:
    """Feeds of a namespace: each opens one iCal file, and nothing else, until it is revoked."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = Auditor(namespace, by)

    def list(self) -> FeedList:
        """Return the feeds of the namespace, by name; their secrets cannot be shown."""
        return self._store.read(lambda tx: tx.calendars.list_feeds(self._namespace))

    def create(self, name: str, labels: Mapping[str, str] | None = None) -> tuple[Feed, str]:
        """Create a feed of the schedules that have all of `labels`; returns it with its token,
        which cannot be shown again.

        Raises Invalid, and Conflict if the name is taken.
        """
        check_name(name, "feed")
        pairs = dict(read_labels("labels", dict(labels or {})))
        feed_id, secret = new_id(), secrets.token_urlsafe(32)

        def work(tx: Tx) -> Feed:
            feed = Feed(feed_id, self._namespace, name, pairs, tx.now, self._audit.by)
            tx.calendars.add_feed(feed, digest_of(secret))
            told = {"labels": pairs}
            self._audit.note(tx, "create", "feed", name, feed_id, after=told)
            return feed

        return self._store.transact(work), secret_text(feed_id, secret)

    def revoke(self, name: str) -> None:
        """Revoke a feed: its token opens nothing from now on. Raises NotFound."""

        def work(tx: Tx) -> None:
            if not tx.calendars.remove_feed(self._namespace, name):
                raise NotFound(f'feed "{shorten(name)}" does not exist')
            self._audit.note(tx, "revoke", "feed", name)

        self._store.transact(work)


def read_feed(store: Store, token: str, budget: Budget | None = None) -> str | None:
    """The iCal file that a token opens; None: it opens none."""
    parts = split_secret(token)
    if parts is None:
        return None
    feed_id, digest = parts

    def work(tx: Tx) -> str | None:
        found = tx.calendars.get_feed(feed_id)
        if found is None or not hmac.compare_digest(found[1], digest):
            return None
        return "".join(f"{_folded(line)}\r\n" for line in _file(tx, found[0], budget))

    return store.read(work)


def _file(tx: Tx, feed: Feed, budget: Budget | None) -> Iterator[str]:
    windows = tx.calendars.list_windows(feed.namespace)
    yield from ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Duebook//Schedules//EN")
    yield f"X-WR-CALNAME:{_escaped(f'{feed.namespace} {feed.name}')}"
    for window in windows:
        if window.end_at > tx.now - _DAY:
            about = (f"Maintenance: {window.name}", _labels(window.labels))
            uid = f"window-{window.start_at:%Y%m%dT%H%M%SZ}-{window.name}"
            yield from _event(uid, tx.now, window.start_at, window.end_at, *about)
    for schedule, spec in _schedules(tx, feed):
        for at in _due_times(tx, schedule, spec, windows, budget):
            uid = f"{schedule.id}-{at:%Y%m%dT%H%M%SZ}"
            about = (spec.title or schedule.name, f"{schedule.name}: {spec.trigger_text}")
            yield from _event(uid, tx.now, at, at, *about)
    yield "END:VCALENDAR"


def _schedules(tx: Tx, feed: Feed) -> Iterator[tuple[Schedule, ScheduleSpec]]:
    """The active schedules with the labels of a feed, by name."""
    wanted = load_schedule_filter({"status": "active", "label": feed.labels or None})
    page = tx.lists.find_schedules(feed.namespace, wanted, "name", None, MOST_SCHEDULES)
    found = tx.schedules.get_schedules([id_ for id_, _ in page.rows])
    for schedule in sorted(found, key=lambda each: each.name):
        if schedule.spec is not None:
            yield schedule, schedule.spec


def _due_times(
    tx: Tx,
    schedule: Schedule,
    spec: ScheduleSpec,
    windows: Sequence[MaintenanceWindow],
    budget: Budget | None,
) -> list[datetime]:
    said = tx.snapshots.exceptions([schedule.id]).get(schedule.id, [])
    spans = spans_for(windows, dict(spec.labels))
    due = DueTimes(spec, said, schedule.watermark or tx.now, schedule.name, budget, spans)
    if due.count(tx.now, tx.now + _DAY) > BUSIEST:
        return []
    return list(islice(due.among(tx.now, tx.now + AHEAD), MOST_EACH))


def _event(
    uid: str, now: datetime, start: datetime, end: datetime, title: str, text: str
) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{_escaped(uid)}@duebook"
    yield f"DTSTAMP:{now:%Y%m%dT%H%M%SZ}"
    yield f"DTSTART:{start:%Y%m%dT%H%M%SZ}"
    if end > start:
        yield f"DTEND:{end:%Y%m%dT%H%M%SZ}"
    yield f"SUMMARY:{_escaped(title)}"
    if text:
        yield f"DESCRIPTION:{_escaped(text)}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _escaped(text: str) -> str:
    """Text as RFC 5545 has it: nothing in it can begin a line."""
    for character in "\\;,":
        text = text.replace(character, f"\\{character}")
    return "".join("\\n" if c == "\n" else c for c in text if c == "\n" or c.isprintable())


def _folded(line: str) -> str:
    """In pieces of up to 75 bytes, of which all but the first begin with a space."""
    pieces, piece = [], ""
    for character in line:
        if len((piece + character).encode()) > 74:
            pieces.append(piece)
            piece = ""
        piece += character
    return "\r\n ".join([*pieces, piece])
