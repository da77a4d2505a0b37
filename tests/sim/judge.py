"""The invariants I1 to I9 in a simulated world: those that tests/chaos checks without a clock, and
due times, overlaps and deliveries by separate rules. Shares no code with Duebook."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos import checker
from tests.chaos.flow_checker import check_flows, most_at_once
from tests.chaos.witness import Witness
from tests.sim.books import closed_days, dead_letters, read_books
from tests.sim.graphs import GRAPHS
from tests.sim.script import LIMITS, RATES
from tests.support.oracle import cron_rule, due_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.books import Books, Row
    from tests.sim.world import World

__all__ = ["judge"]

Closed = dict[tuple[str, int], set[date]]
"""The closed days of each version of each calendar."""

BY_PEOPLE = {"edited", "deleted", "skipped_by_user", "superseded", "paused", "already_started"}


def judge(world: World) -> list[str]:
    """Every violation, as a line that starts with the number of the invariant."""
    books, seen = read_books(world.memory.connection, world.database_clock()), _seen(world)
    quiet = Witness(evidence=seen.evidence)
    found = [f"I1: {text}" for text in checker.no_due_time_twice(books, seen)]
    found += [f"I2: {text}" for text in _no_due_time_lost(books, world)]
    found += [f"I3: {text}" for text in _no_two_at_once(books, seen)]
    found += [f"I3: {text}" for text in _limits_hold(books, seen)]
    if not world.counts["database_jump"]:  # rates go by a clock that no table shows
        found += [f"I3: {text}" for text in _rates_hold(books)]
    worked = _worked(books)
    kept = {run["id"] for run in worked.runs}
    theirs = Witness([line for line in seen.evidence if line.run in kept], pids=seen.pids)
    found += [f"I4: {text}" for text in checker.only_the_owner_settles(worked, theirs)]
    found += [f"I5: {text}" for text in checker.events_in_order(books, quiet)]
    letters = dead_letters(world.memory.connection)
    found += [f"I5: {text}" for text in _deliveries(books, seen, letters, world.rejected)]
    found += [f"I6: {text}" for text in checker.answers_hold(books, seen)]
    found += [f"I9: {text}" for text in checker.ends_are_final(books, seen)]
    found += check_flows(books, seen, GRAPHS, slack=timedelta())
    return [*world.problems, *found]


def _seen(world: World) -> Witness:
    """Steps that somebody had repeated may be opened again, or be replaced by others."""
    seen, repeated = world.seen, world.people.repeated
    glimpses = [glimpse for glimpse in seen.glimpses if glimpse.run not in repeated]
    return replace(seen, glimpses=glimpses, reopened=seen.reopened | repeated)


def _worked(books: Books) -> Books:
    """Omit runs of due times that only write an event, and leave no evidence."""
    events = {s["id"] for s in books.schedules if "event" in s["spec"]["target"]}
    runs = [run for run in books.runs if run["schedule_id"] not in events]
    kept = {run["id"] for run in runs}
    attempts = [attempt for attempt in books.attempts if attempt["run_id"] in kept]
    return replace(books, runs=runs, attempts=attempts)


# ------------------------------------------------------------ I2


def _no_due_time_lost(books: Books, world: World) -> Iterator[str]:
    closed = closed_days(world.memory.connection)
    moved = {datetime.fromtimestamp(at, UTC) for _, at in world.people.moved}
    runs, ledger, revisions = map(_by_schedule, (books.runs, books.ledger, books.revisions))
    for schedule in books.schedules:
        id_ = schedule["id"]
        own = replace(books, runs=runs[id_], ledger=ledger[id_], revisions=revisions[id_])
        found = [*_accounts(own, schedule, moved), *_open_days(own, moved, closed)]
        yield from (f"{schedule['name']}: {text}" for text in found)
    for run in books.runs:
        if run["status"] not in checker.ENDED:
            yield f"run {run['id']} of {run['schedule']} is {run['status']} and never ended"


def _by_schedule(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["schedule_id"]].append(row)
    return found


def _accounts(books: Books, schedule: Row, moved: set[datetime]) -> Iterator[str]:
    """Of its own rows: each due time of each revision, while it was in force, ran or is in the
    ledger; what ran was due by some revision, and what the ledger counts is there."""
    revisions = books.revisions
    until = _end(schedule)
    ends = [*(row["valid_from"] for row in revisions[1:]), until]
    known = [
        # a revision was in use until the next one, even if that ended the schedule earlier
        _due(row, schedule["created_at"], max(end, until))
        for row, end in zip(revisions, ends, strict=True)
    ]
    required = {
        due
        for row, dues, end in zip(revisions, known, ends, strict=True)
        for due in dues
        if row["valid_from"] < due <= end
    }
    ran = {run["due_at"] for run in books.runs} - {None}
    exact, more = [sorted(dues) for dues in known], [sorted(dues | moved) for dues in known]
    left_out: set[datetime] = set()
    for entry in books.ledger:
        covered = [_within(dues, entry) for dues in more]
        counts = {len(one) for one in covered} | {len(_within(dues, entry)) for dues in exact}
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


def _open_days(books: Books, moved: set[datetime], closed: Closed) -> Iterator[str]:
    """Of the rows of one schedule: nothing runs on a day that every revision closes, and what a
    calendar leaves out is on a day that some revision closes."""
    specs = [row["spec"] for row in books.revisions]
    calendars = [spec["calendar"] for spec in specs if "calendar" in spec]
    days = [closed[one["except"], one["resolved"]["version"]] for one in calendars]
    if len(days) < len(specs) or not days:
        return
    for run in books.runs:
        due = run["due_at"]
        if due is None or due in moved:
            continue
        if all(due.date() in one for one in days):
            yield f"{due} ran on a day that its calendar closes"
    for entry in books.ledger:
        if entry["reason"] != "calendar":
            continue
        ends = entry["due_from"].date(), entry["due_to"].date()
        if not all(any(day in one for one in days) for day in ends):
            yield f"{entry['due_from']} is left out on a day that is open"


def _allowed(reason: str, revisions: list[Row]) -> bool:
    if reason == "calendar":
        return any("calendar" in row["spec"] for row in revisions)
    rule = checker.REASONS.get(reason)
    return reason in BY_PEOPLE or any(rule is not None and rule(r["spec"]) for r in revisions)


def _within(dues: list[datetime], entry: Row) -> list[datetime]:
    return dues[bisect_left(dues, entry["due_from"]) : bisect_right(dues, entry["due_to"])]


def _end(schedule: Row) -> datetime:
    """The time up to which its due times must be accounted for."""
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
    """Attempts that exclude each other never work at the same true time; those of a flow's run are
    all that its steps do, unless somebody had it go on later."""
    exclusive = {run["id"]: run["schedule_id"] for run in books.runs if run["exclusive"]}
    flows = {
        run["id"]: run["parent_run_id"]
        for run in books.runs
        if run["parent_run_id"] in exclusive and run["parent_run_id"] not in seen.reopened
    }
    spans: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(dict)
    for line in seen.evidence:
        run = flows.get(line.run, line.run)
        if run in exclusive:
            token = run, 0 if line.run in flows else line.attempt
            spans[exclusive[run]].setdefault(token, []).append(line.at)
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
        busy = most_at_once((min(at), max(at)) for at in attempts.values())
        if busy > LIMITS[queue]:
            yield f"{busy} runs of queue {queue} worked at once"


def _rates_hold(books: Books) -> Iterator[str]:
    """No more runs begin in any such stretch of time."""
    queues = {run["id"]: run["queue"] for run in books.runs if run["queue"] in RATES}
    claims: dict[str, list[datetime]] = defaultdict(list)
    for row in (*books.runs, *books.attempts):
        queue = queues.get(row["run_id"] if "run_id" in row else row["id"])
        if queue is not None and row["claimed_at"] is not None:
            claims[queue].append(row["claimed_at"])
    for queue, times in claims.items():
        count, seconds = RATES[queue]
        in_order = sorted(times)
        for first, last in zip(in_order, in_order[count:], strict=False):
            if last - first < timedelta(seconds=seconds):
                yield f"{count + 1} runs of queue {queue} began from {first} to {last}"
                break


# ------------------------------------------------------------ I5


def _deliveries(
    books: Books, seen: Witness, letters: list[str], rejected: set[str]
) -> Iterator[str]:
    """Each event of the topic arrives, and never for the first time after a later one of its key;
    those, and only those, that the receiver never takes are given up."""
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
    lost = known.keys() - arrived - set(letters)
    yield from (f"event {id_} was never delivered" for id_ in sorted(lost))
    for id_ in sorted(set(letters) ^ (rejected & known.keys())):
        how = "was given up, and nobody rejected it" if id_ in letters else "was never given up"
        yield f"event {id_} {how}"
