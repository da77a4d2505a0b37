"""The invariants I1 to I9, checked against the database's tables and what was seen outside of it.

Shares no code with planner, triggers, store and engine: due times come from tests/support/oracle.py
and from arithmetic here. Every violation is a line that starts with the number of the invariant.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.support.oracle import cron_rule, due_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.chaos.books import Books, Row
    from tests.chaos.witness import Witness

ENDED: Final = ("succeeded", "partial", "failed", "cancelled")
UNITS: Final = {"s": 1, "m": 60, "h": 3600}
REASONS: Final[dict[str, Callable[[Row], bool]]] = {
    "overlap": lambda spec: spec.get("overlap", "skip") == "skip",
    "superseded": lambda spec: spec.get("overlap") in ("latest", "cancel"),
    "coalesced": lambda spec: spec.get("catchup", "one") == "one",
    "missed": lambda spec: spec.get("catchup") == "skip",
    "expired": lambda spec: "catchup_window" in spec or "catchup_limit" in spec,
}
"""For each reason to skip a due time: which definitions allow it."""
AT_WORK: Final = 3.0
"""Seconds before the end of its lease at which a node or its spawner stops its work."""
TAKE_OVER: Final = 2.0
"""Seconds that a takeover may last longer than a lease and two looks, on a busy machine."""


def check(books: Books, seen: Witness) -> list[str]:
    """Every violation; empty if the database is right."""
    checks = (
        no_due_time_twice,
        no_due_time_lost,
        no_two_at_once,
        only_the_owner_settles,
        events_in_order,
        answers_hold,
        nothing_early,
        dead_nodes_are_followed,
        ends_are_final,
    )
    return [
        f"I{number}: {text}" for number, look in enumerate(checks, 1) for text in look(books, seen)
    ]


# ------------------------------------------------------------ I1


def no_due_time_twice(books: Books, seen: Witness) -> Iterator[str]:
    """At most one run per due time, both recorded and real; an attempt starts at most once."""
    rows = Counter((run["schedule_id"], run["due_at"]) for run in books.runs if run["due_at"])
    yield from (f"{n} runs of {owner} for {due}" for (owner, due), n in rows.items() if n > 1)
    origins = {run["id"]: run for run in books.runs}
    done: dict[tuple[str, float], set[str]] = defaultdict(set)
    for line in seen.evidence:
        if line.run not in origins:
            yield f"{line.schedule} executed {line.run}, which is on no books"
        elif origins[line.run]["due_at"]:
            done[line.schedule, line.due].add(line.run)
    for (schedule, due), runs in done.items():
        if len(runs) > 1:
            yield f"{schedule} executed {len(runs)} runs for {due}"
    starts = Counter((e.run, e.attempt) for e in seen.evidence if e.word == "start")
    for (run, attempt), times in starts.items():
        if times > 1:
            yield f"attempt {attempt} of {run} began {times} times"


# ------------------------------------------------------------ I2


def no_due_time_lost(books: Books, seen: Witness) -> Iterator[str]:
    """Every due time has a run that ended, or a ledger entry with a reason that the policy
    allows."""
    for schedule in books.schedules:
        runs = [run for run in books.runs if run["schedule_id"] == schedule["id"]]
        entries = [entry for entry in books.ledger if entry["schedule_id"] == schedule["id"]]
        problems = [*_accounts(schedule, runs, entries), *_reasons(schedule, entries, seen)]
        yield from (f"{schedule['name']}: {text}" for text in problems)
    for run in books.runs:
        if run["status"] not in ENDED:
            yield f"run {run['id']} of {run['schedule']} is {run['status']} and never ended"


def _accounts(schedule: Row, runs: list[Row], entries: list[Row]) -> Iterator[str]:
    expected = _due_times(schedule)
    ran = {run["due_at"] for run in runs if run["due_at"]}
    left_out: set[datetime] = set()
    for entry in entries:
        covered = {due for due in expected if entry["due_from"] <= due <= entry["due_to"]}
        if len(covered) != entry["count"]:
            yield f"{entry['reason']} counts {entry['count']} due times, there are {len(covered)}"
        if again := covered & left_out:
            yield f"{min(again)} is recorded twice"
        left_out |= covered
    if both := ran & left_out:
        yield f"{min(both)} ran and is recorded as left out"
    if lost := expected - ran - left_out:
        yield f"{len(lost)} due times are unaccounted for, the first is {min(lost)}"
    if invented := ran - expected:
        yield f"{min(invented)} ran and is not a due time"


def _reasons(schedule: Row, entries: list[Row], seen: Witness) -> Iterator[str]:
    for reason in {entry["reason"] for entry in entries}:
        allowed = reason in REASONS and REASONS[reason](schedule["spec"])
        allowed |= reason == "paused" and schedule["name"] in seen.paused
        # an end set after it had passed removes due times that waited beyond it
        allowed |= reason == "edited" and schedule["valid_from"] > _end(schedule)
        if not allowed:
            yield f"left out as {reason}, which its policy does not know"


def _due_times(schedule: Row) -> set[datetime]:
    """From the schedule's creation to its end, or as far as it was planned."""
    spec, after = schedule["spec"], schedule["created_at"]
    until = schedule["watermark"]
    if until is None:
        return set()  # it was deleted
    if spec.get("end_at") is not None:
        until = max(_end(schedule), schedule["valid_from"])
    trigger = spec["trigger"]
    if "cron" in trigger:
        rule = cron_rule(trigger["cron"], trigger.get("tz", "UTC"))
        return set(due_times(rule, after, until))
    if "at" in trigger:
        at = datetime.fromisoformat(trigger["at"])
        return {at} if after < at <= until else set()
    period, anchor = _length(trigger["every"]), datetime.fromisoformat(trigger["anchor"])
    first = (after - anchor) // period + 1
    last = (until - anchor) // period
    return {anchor + k * period for k in range(first, last + 1)}


def _end(schedule: Row) -> datetime:
    return datetime.fromisoformat(schedule["spec"].get("end_at") or "9999-12-31T00:00:00Z")


def _length(text: str) -> timedelta:
    parts = re.findall(r"(\d+)([smh])", text)
    return timedelta(seconds=sum(int(number) * UNITS[unit] for number, unit in parts))


# ------------------------------------------------------------ I3


def no_two_at_once(books: Books, seen: Witness) -> Iterator[str]:
    """Attempts that exclude each other never work at the same time, and only within their lease."""
    exclusive = {run["id"] for run in books.runs if run["exclusive"]}
    leases = {session["id"]: session["expires_at"].timestamp() for session in books.sessions}
    owners = _owners(books)
    spans: dict[str, dict[tuple[str, int], tuple[float, float]]] = defaultdict(dict)
    for line in seen.evidence:
        token = line.run, line.attempt
        if line.run in exclusive:
            first, last = spans[line.schedule].get(token, (line.at, line.at))
            spans[line.schedule][token] = min(first, line.at), max(last, line.at)
        if (owner := owners.get(token)) in leases and line.at > leases[owner]:
            late = line.at - leases[owner]
            if late > seen.stood_still(leases[owner] - AT_WORK, line.at):  # or nothing could end it
                yield f"attempt {line.attempt} of {line.run} worked {late:.2f} s beyond its lease"
    for schedule, attempts in spans.items():
        in_order = sorted((span, token) for token, span in attempts.items())
        for ((_, ended), one), ((began, _), other) in pairwise(in_order):
            if began < ended:
                yield f"{schedule}: {one} and {other} worked at once for {ended - began:.2f} s"


def _owners(books: Books) -> dict[tuple[str, int], str]:
    """The session of each attempt."""
    owners = {(row["run_id"], row["attempt"]): row["session_id"] for row in books.attempts}
    for run in books.runs:
        if run["session_id"] is not None:
            owners[run["id"], run["attempt"]] = run["session_id"]
    return owners


# ------------------------------------------------------------ I4


def only_the_owner_settles(books: Books, seen: Witness) -> Iterator[str]:
    """Attempts are numbered without gaps; each was executed where it is recorded, and ended so."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in books.attempts:
        numbers[row["run_id"]].add(row["attempt"])
    for run in books.runs:
        found = numbers[run["id"]] | {run["attempt"]}
        if found - {0} != set(range(1, run["attempt"] + 1)):
            yield f"run {run['id']} is at attempt {run['attempt']} and knows {sorted(found)}"
    pids = {session["id"]: session["pid"] for session in books.sessions}
    owners = _owners(books)
    for line in seen.evidence:
        owner, pid = owners.get((line.run, line.attempt)), seen.pids.get(line.node)
        if line.word == "start" and pid is not None and pids.get(owner or "") != pid:
            yield f"attempt {line.attempt} of {line.run} began on a node that did not own it"
    yield from _ends(books, seen)


def _ends(books: Books, seen: Witness) -> Iterator[str]:
    words: dict[tuple[str, int], set[str]] = defaultdict(set)
    for line in seen.evidence:
        words[line.run, line.attempt].add(line.word)
    flows = {run["id"] for run in books.runs if run["queue"] == "@flow"}  # they execute nothing
    ends = [(run["id"], run["attempt"], run["status"], run["exit_code"]) for run in books.runs]
    ends += [(a["run_id"], a["attempt"], a["outcome"], a["exit_code"]) for a in books.attempts]
    ends = [end for end in ends if end[0] not in flows]
    for run, attempt, outcome, code in ends:
        said = words[run, attempt]
        if outcome == "succeeded" and "end" not in said:
            yield f"attempt {attempt} of {run} succeeded and was never done"
        if outcome == "failed" and code is not None and "fail" not in said:
            yield f"attempt {attempt} of {run} failed with {code}, which it never said"


# ------------------------------------------------------------ I5


def events_in_order(books: Books, seen: Witness) -> Iterator[str]:
    """Versions without gaps, positions in their order; each delivered, never backwards for a
    key."""
    by_aggregate: dict[str, list[Row]] = defaultdict(list)
    for event in books.events:
        if event["aggregate"] is not None:
            by_aggregate[event["aggregate"]].append(event)
    for aggregate, events in by_aggregate.items():
        if [event["version"] for event in events] != list(range(1, len(events) + 1)):
            yield f"{aggregate} has versions {[event['version'] for event in events]}"
        positions = [event["position"] for event in events if event["position"] is not None]
        if positions != sorted(positions):
            yield f"{aggregate} has positions {positions}"
    known = {event["id"]: event for event in books.events}
    for delivery in seen.deliveries:
        if delivery.event not in known:
            yield f"{delivery.consumer} got event {delivery.event}, which is on no books"
    for consumer in {delivery.consumer for delivery in seen.deliveries}:
        names = [d.event for d in seen.deliveries if d.consumer == consumer]
        got = [known[name] for name in names if name in known]
        yield from (f"{consumer}: {text}" for text in _deliveries(known, got))


def _deliveries(known: dict[str, Row], got: list[Row]) -> Iterator[str]:
    for missing in known.keys() - {event["id"] for event in got}:
        yield f"event {missing} was never delivered"
    latest: dict[str, int] = {}
    for event in got:
        if event["position"] < latest.get(event["key"], 0):
            yield f"event {event['id']} came after a later one of {event['key']}"
        latest[event["key"]] = event["position"]


# ------------------------------------------------------------ I6


def answers_hold(books: Books, seen: Witness) -> Iterator[str]:
    """Every change that was confirmed to a user is in the database."""
    runs = {run["id"]: run for run in books.runs}
    schedules = {schedule["id"] for schedule in books.schedules}
    revisions = {(row["schedule_id"], row["version"]) for row in books.revisions}
    for answer in seen.answers:
        holds = {
            "created": answer.id in schedules,
            "updated": (answer.id, answer.version) in revisions,
            "triggered": answer.id in runs,
            "retried": answer.id in runs and runs[answer.id]["attempt"] > (answer.version or 0),
            "cancelled": answer.id in runs
            and (runs[answer.id]["cancel_requested_at"] or runs[answer.id]["status"] in ENDED),
        }[answer.what]
        if not holds:
            yield f"{answer.id} was {answer.what} by an answer and is not by the books"


# ------------------------------------------------------------ I7


def nothing_early(books: Books, seen: Witness) -> Iterator[str]:
    """No run started before its time, by the records and in reality."""
    due = {run["id"]: run["due_at"] for run in books.runs}
    claims = [(run["id"], run["claimed_at"]) for run in books.runs]
    claims += [(attempt["run_id"], attempt["claimed_at"]) for attempt in books.attempts]
    for run, claimed_at in claims:
        if claimed_at is not None and due[run] is not None and claimed_at < due[run]:
            yield f"run {run} was claimed at {claimed_at}, before {due[run]}"
    for line in seen.evidence:
        if due.get(line.run) is not None and line.at < line.due:
            yield f"run {line.run} began {line.due - line.at:.2f} s early"


# ------------------------------------------------------------ I8


def dead_nodes_are_followed(books: Books, seen: Witness) -> Iterator[str]:
    """Runs of dead nodes are taken over within two looks of the end of their lease. The limit
    counts from the last fault that kept live nodes from it, or from the time when the first node
    that outlived the dead one may judge others, which is one lease after its start."""
    sessions = {session["id"]: session for session in books.sessions}
    for attempt in books.attempts:
        session = sessions.get(attempt["session_id"])
        if attempt["outcome"] != "lost" or session is None:
            continue
        lease = (session["expires_at"] - session["seen_at"]).total_seconds()
        if session["ended_at"] == session["seen_at"]:
            continue  # it stopped in order, so no run was lost by its death
        ends, taken = session["expires_at"].timestamp(), attempt["finished_at"].timestamp()
        judged_from = _first_judge(books.sessions, session)
        limit = max(ends, judged_from) + lease * 2 / 3 + TAKE_OVER
        for fault in sorted(seen.faults, key=lambda fault: fault.began):
            if fault.began - lease <= limit:
                limit = max(limit, fault.ended + lease * 5 / 3 + TAKE_OVER)
        if taken > limit:
            yield f"run {attempt['run_id']} of a dead node waited {taken - ends:.1f} s"


def _first_judge(sessions: Iterable[Row], dead: Row) -> float:
    """When the first node that outlived the dead one had run for its own lease, and may judge."""
    return min(
        (
            (other["started_at"] + (other["expires_at"] - other["seen_at"])).timestamp()
            for other in sessions
            if other["id"] != dead["id"]
            and (other["ended_at"] or other["expires_at"]) > dead["expires_at"]
        ),
        default=0.0,
    )


# ------------------------------------------------------------ I9


def ends_are_final(books: Books, seen: Witness) -> Iterator[str]:
    """The end of an attempt never changes, and only a user can reopen a run."""
    runs = {run["id"]: run for run in books.runs}
    outcomes = {(a["run_id"], a["attempt"]): a["outcome"] for a in books.attempts}
    for glimpse in set(seen.glimpses):
        run = runs.get(glimpse.run)
        if run is None:
            yield f"run {glimpse.run} had ended and is gone"
        elif run["attempt"] == glimpse.attempt and run["status"] in ENDED:
            if facts_of(run) != glimpse.facts:
                yield f"run {glimpse.run} ended as {glimpse.facts} and now as {facts_of(run)}"
        elif glimpse.run not in seen.reopened:
            yield f"run {glimpse.run} had ended and was opened again by nobody"
        elif outcomes.get((glimpse.run, glimpse.attempt)) not in (glimpse.facts[0], None):
            yield f"attempt {glimpse.attempt} of {glimpse.run} had another outcome before"
    yield from _work_after_the_end(runs.values(), seen)


def _work_after_the_end(runs: Iterable[Row], seen: Witness) -> Iterator[str]:
    last = {run["id"]: run["attempt"] for run in runs}
    for line in seen.evidence:
        if line.attempt > last.get(line.run, line.attempt):
            yield f"run {line.run} was at work as attempt {line.attempt}, which is on no books"


def facts_of(run: Row) -> tuple[object, ...]:
    """Facts that must not change about a run that has ended."""
    names = ("status", "finished_at", "reason", "exit_code", "session_id")
    return tuple(run[name] for name in names)
