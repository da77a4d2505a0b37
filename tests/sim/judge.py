"""The invariants I1 to I9 in a simulated world: what tests/chaos judges without a clock, and due
times, overlaps and deliveries by rules of its own. Shares no code with Duebook."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos import checker
from tests.chaos.witness import Witness
from tests.sim.books import closed_days, read_books
from tests.sim.script import LIMITS
from tests.support.oracle import cron_rule, due_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.books import Books, Row
    from tests.sim.world import World

__all__ = ["judge"]

Closed = dict[tuple[str, int], set[date]]
"""The days of each version of each calendar."""

BY_PEOPLE = {"edited", "deleted", "skipped_by_user", "superseded", "paused", "already_started"}


def judge(world: World) -> list[str]:
    """Every violation, each a line that begins with the number of the invariant."""
    books, seen = read_books(world.memory.connection, world.database_clock()), world.seen
    quiet = Witness(evidence=seen.evidence)
    found = [f"I1: {text}" for text in checker.no_due_time_twice(books, seen)]
    found += [f"I2: {text}" for text in _no_due_time_lost(books, world)]
    found += [f"I3: {text}" for text in _no_two_at_once(books, seen)]
    found += [f"I3: {text}" for text in _limits_hold(books, seen)]
    worked = _worked(books)
    kept = {run["id"] for run in worked.runs}
    theirs = Witness([line for line in seen.evidence if line.run in kept], pids=seen.pids)
    found += [f"I4: {text}" for text in checker.only_the_owner_settles(worked, theirs)]
    found += [f"I5: {text}" for text in checker.events_in_order(books, quiet)]
    found += [f"I5: {text}" for text in _deliveries(books, seen)]
    found += [f"I6: {text}" for text in checker.answers_hold(books, seen)]
    found += [f"I9: {text}" for text in checker.ends_are_final(books, seen)]
    return [*world.problems, *found]


def _worked(books: Books) -> Books:
    """Without runs of due times that only write an event, and leave no evidence."""
    events = {s["id"] for s in books.schedules if "event" in s["spec"]["target"]}
    runs = [run for run in books.runs if run["schedule_id"] not in events]
    kept = {run["id"] for run in runs}
    attempts = [attempt for attempt in books.attempts if attempt["run_id"] in kept]
    return replace(books, runs=runs, attempts=attempts)


# ------------------------------------------------------------ I2


def _no_due_time_lost(books: Books, world: World) -> Iterator[str]:
    closed = closed_days(world.memory.connection)
    for schedule in books.schedules:
        moved = {datetime.fromtimestamp(at, UTC) for n, at in world.people.moved}
        found = [*_accounts(books, schedule, moved), *_open_days(books, schedule, moved, closed)]
        yield from (f"{schedule['name']}: {text}" for text in found)
    for run in books.runs:
        if run["status"] not in checker.ENDED:
            yield f"run {run['id']} of {run['schedule']} is {run['status']} and never ended"


def _accounts(books: Books, schedule: Row, moved: set[datetime]) -> Iterator[str]:
    """Each due time of each revision, while it was in force, ran or is in the ledger; what ran was
    due by some revision, and what the ledger counts is there."""
    revisions = [row for row in books.revisions if row["schedule_id"] == schedule["id"]]
    until = _end(schedule)
    ends = [*(row["valid_from"] for row in revisions[1:]), until]
    known = [
        # a revision was in force until the next, even if that one ended the schedule before
        _due(row, schedule["created_at"], max(end, until))
        for row, end in zip(revisions, ends, strict=True)
    ]
    required = {
        due
        for row, dues, end in zip(revisions, known, ends, strict=True)
        for due in dues
        if row["valid_from"] < due <= end
    }
    ran = {run["due_at"] for run in books.runs if run["schedule_id"] == schedule["id"]} - {None}
    entries = [entry for entry in books.ledger if entry["schedule_id"] == schedule["id"]]
    left_out: set[datetime] = set()
    for entry in entries:
        covered = [_within(dues | moved, entry) for dues in known]
        counts = {len(one) for one in covered} | {len(_within(dues, entry)) for dues in known}
        if len(revisions) == 1 and entry["count"] not in counts:
            yield f"{entry['reason']} counts {entry['count']} due times, there are {counts}"
        now_out = set().union(*covered)
        if len(revisions) == 1 and (again := now_out & left_out - moved):
            yield f"{min(again)} is recorded twice"
        left_out |= now_out
        if not _allowed(entry["reason"], revisions):
            yield f"left out as {entry['reason']}, which its policy does not know"
    if len(revisions) == 1 and (both := (ran & left_out) - moved):
        yield f"{min(both)} ran and is recorded as left out"
    if lost := required - ran - left_out:
        yield f"{len(lost)} due times are unaccounted for, the first is {min(lost)}"
    if invented := ran - set().union(*known) - moved:
        yield f"{min(invented)} ran and is not a due time"


def _open_days(books: Books, schedule: Row, moved: set[datetime], closed: Closed) -> Iterator[str]:
    """Nothing runs on a day that every revision closes, and what a calendar leaves out is on a day
    that some revision closes."""
    specs = [row["spec"] for row in books.revisions if row["schedule_id"] == schedule["id"]]
    calendars = [spec["calendar"] for spec in specs if "calendar" in spec]
    days = [closed[one["except"], one["resolved"]["version"]] for one in calendars]
    if len(days) < len(specs) or not days:
        return
    for run in books.runs:
        due = run["due_at"]
        if run["schedule_id"] != schedule["id"] or due is None or due in moved:
            continue
        if all(due.date() in one for one in days):
            yield f"{due} ran on a day that its calendar closes"
    for entry in books.ledger:
        if (entry["schedule_id"], entry["reason"]) != (schedule["id"], "calendar"):
            continue
        ends = entry["due_from"].date(), entry["due_to"].date()
        if not all(any(day in one for one in days) for day in ends):
            yield f"{entry['due_from']} is left out on a day that is open"


def _allowed(reason: str, revisions: list[Row]) -> bool:
    if reason == "calendar":
        return any("calendar" in row["spec"] for row in revisions)
    rule = checker.REASONS.get(reason)
    return reason in BY_PEOPLE or any(rule is not None and rule(r["spec"]) for r in revisions)


def _within(dues: set[datetime], entry: Row) -> set[datetime]:
    return {due for due in dues if entry["due_from"] <= due <= entry["due_to"]}


def _end(schedule: Row) -> datetime:
    """Up to where its due times must be accounted for."""
    deleted: datetime | None = schedule["deleted_at"]
    if deleted is not None:
        return deleted
    end = schedule["spec"].get("end_at")
    return schedule["watermark"] if end is None else datetime.fromisoformat(end)


def _due(revision: Row, after: datetime, until: datetime) -> set[datetime]:
    trigger = revision["spec"]["trigger"]
    if "cron" in trigger:
        rule = cron_rule(trigger["cron"], trigger.get("tz", "UTC"))
        return set(due_times(rule, after, until))
    period = checker._length(trigger["every"])
    anchor = datetime.fromisoformat(trigger["anchor"])
    first, last = (after - anchor) // period + 1, (until - anchor) // period
    return {anchor + k * period for k in range(first, last + 1)}


# ------------------------------------------------------------ I3


def _no_two_at_once(books: Books, seen: Witness) -> Iterator[str]:
    """Attempts that exclude each other never work at the same true time."""
    exclusive = {run["id"]: run["schedule_id"] for run in books.runs if run["exclusive"]}
    spans: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(dict)
    for line in seen.evidence:
        if line.run in exclusive:
            token = line.run, line.attempt
            spans[exclusive[line.run]].setdefault(token, []).append(line.at)
    for attempts in spans.values():
        in_order = sorted((min(at), max(at), token) for token, at in attempts.items())
        for (_, ended, one), (began, _, other) in pairwise(in_order):
            if began < ended:
                yield f"{one} and {other} worked at once for {ended - began:.2f} s"


def _limits_hold(books: Books, seen: Witness) -> Iterator[str]:
    """Never more attempts of a queue work at the same true time than it allows."""
    queues = {run["id"]: run["queue"] for run in books.runs if run["queue"] in LIMITS}
    spans: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(dict)
    for line in seen.evidence:
        if line.run in queues:
            token = line.run, line.attempt
            spans[queues[line.run]].setdefault(token, []).append(line.at)
    for queue, attempts in spans.items():
        begins = [(min(at), 1) for at in attempts.values()]
        working = 0
        for at, change in sorted([*begins, *((max(at), -1) for at in attempts.values())]):
            working += change
            if working > LIMITS[queue]:
                yield f"{working} runs of queue {queue} worked at once at {at:.2f} s"
                break


# ------------------------------------------------------------ I5


def _deliveries(books: Books, seen: Witness) -> Iterator[str]:
    """Each event of the topic arrives, and never for the first time after a later one of its
    key."""
    known = {event["id"]: event for event in books.events if event["topic"] == "sim"}
    latest: dict[str, int] = {}
    arrived: set[str] = set()
    for delivery in seen.deliveries:
        event = known.get(delivery.event)
        if event is None:
            yield f"event {delivery.event} was delivered and is on no books"
            continue
        if event["id"] not in arrived and event["position"] < latest.get(event["key"], 0):
            yield f"event {event['id']} came after a later one of {event['key']}"
        arrived.add(event["id"])
        latest[event["key"]] = max(event["position"], latest.get(event["key"], 0))
    yield from (f"event {id_} was never delivered" for id_ in sorted(known.keys() - arrived))
