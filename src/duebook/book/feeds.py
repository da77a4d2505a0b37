"""Use cases of feeds, and the iCal file of a feed: future due times, and maintenance windows."""

from __future__ import annotations

import hmac
import secrets
from datetime import timedelta
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.book.audit import Auditor
from duebook.errors import Invalid, NotFound, shorten
from duebook.ids import check_name, new_id
from duebook.lazy_dataclasses import dataclass
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
    from duebook.model.plan import DueException
    from duebook.model.schedule import Schedule
    from duebook.model.window import MaintenanceWindow
    from duebook.store.base import Store, Tx

    FeedList = list[Feed]  # inside the class below `list` is a method

__all__ = ["Feeds", "find_feed", "write_feed"]

AHEAD: Final = timedelta(days=60)
BUSIEST: Final = 24
"""Schedules with more due times in a day are not shown, because the rest would be unreadable."""
MOST_FEEDS: Final = 100
"""In a namespace."""
MOST_EACH: Final = 200
MOST_SCHEDULES: Final = 1_000
MOST_EVENTS: Final = 10_000
"""Due times in a file: the first ones of all its schedules."""
_FEWER: Final = "Create a feed for fewer schedules, by their labels."
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
        pairs = dict(read_labels("labels", labels or {}))
        feed_id, secret = new_id(), secrets.token_urlsafe(32)

        def work(tx: Tx) -> Feed:
            if len(tx.calendars.list_feeds(self._namespace)) >= MOST_FEEDS:
                raise Invalid(
                    f'namespace "{self._namespace}" already has {MOST_FEEDS} feeds, the most that '
                    "it may have; revoke some that are not used"
                )
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


def find_feed(store: Store, token: str) -> Feed | None:
    """The feed of a token; None if the token is not valid."""
    parts = split_secret(token)
    if parts is None:
        return None
    feed_id, digest = parts
    found = store.read(lambda tx: tx.calendars.get_feed(feed_id))
    return found[0] if found and hmac.compare_digest(found[1], digest) else None


def write_feed(store: Store, feed: Feed, budget: Budget | None = None) -> str:
    """The iCal file of a feed: windows, and the first future due times of all its schedules.

    Raises OverBudget when `budget` is used up.
    """
    facts = store.read(lambda tx: _read(tx, feed))  # compute nothing in a transaction
    return "".join(f"{_folded(line)}\r\n" for line in _file(facts, budget))


@dataclass(frozen=True)
class _Facts:
    """The data of a feed."""

    feed: Feed
    now: datetime
    windows: Sequence[MaintenanceWindow]
    schedules: Sequence[Schedule]
    said: Mapping[str, Sequence[DueException]]
    are_all: bool
    """whether these are all schedules of the feed"""


def _read(tx: Tx, feed: Feed) -> _Facts:
    """The active schedules with the feed's labels, by name, with windows and exceptions."""
    wanted = load_schedule_filter({"status": "active", "label": feed.labels or None})
    page = tx.lists.find_schedules(feed.namespace, wanted, "name", None, MOST_SCHEDULES)
    ids = [id_ for id_, _ in page.rows]
    found = sorted(tx.schedules.get_schedules(ids), key=lambda each: each.name)
    windows, said = tx.calendars.list_windows(feed.namespace), tx.snapshots.exceptions(ids)
    return _Facts(feed, tx.now, windows, found, said, page.last is None)


def _file(facts: _Facts, budget: Budget | None) -> Iterator[str]:
    feed, now = facts.feed, facts.now
    yield from ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Duebook//Schedules//EN")
    yield f"X-WR-CALNAME:{_escaped(f'{feed.namespace} {feed.name}')}"
    for window in facts.windows:
        if window.end_at > now - _DAY:
            about = (f"Maintenance: {window.name}", _labels(window.labels))
            uid = f"window-{window.start_at:%Y%m%dT%H%M%SZ}-{window.name}"
            yield from _event(uid, now, window.start_at, window.end_at, *about)
    due_times = [_due_times(facts, schedule, budget) for schedule in facts.schedules]
    for number, (at, id_, title, text) in enumerate(merge(*due_times)):
        if number == MOST_EVENTS:
            told = f"More than {MOST_EVENTS:,} due times; later ones are not shown"
            yield from _event("more-due-times", now, at, at, told, _FEWER)
            break
        yield from _event(f"{id_}-{at:%Y%m%dT%H%M%SZ}", now, at, at, title, text)
    if not facts.are_all:
        told = f"More than {MOST_SCHEDULES:,} schedules; the others are not shown"
        yield from _event("more-schedules", now, now, now, told, _FEWER)
    yield "END:VCALENDAR"


def _due_times(
    facts: _Facts, schedule: Schedule, budget: Budget | None
) -> Iterator[tuple[datetime, str, str, str]]:
    """The due times of a schedule, each with the schedule's id, its title and its kind."""
    if (spec := schedule.spec) is None:
        return
    now, said = facts.now, facts.said.get(schedule.id, ())
    spans = spans_for(facts.windows, dict(spec.labels))
    due = DueTimes(spec, said, schedule.watermark or now, schedule.name, budget, spans)
    if due.count(now, now + _DAY) > BUSIEST:
        return
    about = schedule.id, spec.title or schedule.name, f"{schedule.name}: {spec.trigger_text}"
    for at in islice(due.among(now, now + AHEAD), MOST_EACH):
        yield at, *about


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
    """Text escaped as in RFC 5545, so that nothing in it can start a line."""
    for character in "\\;,":
        text = text.replace(character, f"\\{character}")
    return "".join("\\n" if c == "\n" else c for c in text if c == "\n" or c.isprintable())


def _folded(line: str) -> str:
    """Split into pieces of up to 75 bytes; all but the first start with a space."""
    if len(line) <= 74 and line.isascii():
        return line
    pieces, piece = [], ""
    for character in line:
        if len((piece + character).encode()) > 74:
            pieces.append(piece)
            piece = ""
        piece += character
    return "\r\n ".join([*pieces, piece])
