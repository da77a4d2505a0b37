"""Use cases of held due times: list, approve, reject."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, get_args

from duebook.book.audit import ScheduleAudit
from duebook.book.backfill import fill
from duebook.book.held import Chosen, held_of, record_rejected
from duebook.errors import Conflict, Invalid, NotFound, counted, shorten
from duebook.model.fields import read_labels, whole
from duebook.model.filters import check_page
from duebook.model.held import BulkDecision, DecisionKind
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.planner import newest_since, plan
from duebook.store.values import Filling
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.held import CatchupDecision, HeldRange
    from duebook.model.listing import PagePosition
    from duebook.model.plan import Snapshot
    from duebook.planner import Held
    from duebook.store.base import Store, Tx

    # inside the class below `list` is a method
    HeldRanges = Listing[HeldRange]
    HeldList = list[Held]
    NameList = list[str]

__all__ = ["MOST_APPROVED", "Catchup"]

MOST_APPROVED: Final = 10_000
"""Due times that one approval takes."""
MOST_TOLD: Final = 20
"""Schedules and problems that a decision about many of them names."""
PAGE: Final = 1_000
_EVER: Final = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class Catchup:
    """Missed due times that `catchup_approval` set aside. They wait until they are approved or
    rejected; they do not expire, and later due times are not affected."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = ScheduleAudit(namespace, by)

    def list(
        self, schedule: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> HeldRanges:
        """Return held ranges, by schedule and due time; of one schedule, or of all.

        Pass `next_cursor` for the next page. Raises NotFound, and BadCursor.
        """
        check_page(limit)
        asked = ["held", self._namespace, schedule]
        key = self._store.cursor_key()
        after = read_cursor(key, asked, cursor, "si")

        def work(tx: Tx) -> HeldRanges:
            only = "" if schedule is None else self._find(tx, schedule)
            found = tx.held.list_held(self._namespace, only, after, limit)
            return Listing(found.rows, write_cursor(key, asked, found.last))

        return self._store.read(work)

    def approve(
        self,
        name: str,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        newest: int | None = None,
        reject_rest: bool = False,
        dry_run: bool = False,
    ) -> CatchupDecision:
        """Queue runs for held due times: all, those from `start` to `end`, or the `newest` ones.

        The runs have the origin `catchup`, count towards `max_runs`, and give way to due times and
        manual runs like those of a backfill. The other due times stay held, or are rejected with
        `reject_rest`. With `dry_run` nothing changes. Raises Conflict if nothing is held there or
        `max_runs` allows fewer runs, and Invalid for more than 10,000 due times.
        """
        if newest is not None and (start is not None or end is not None):
            raise Invalid("give either newest, or start and end")
        most = None if newest is None else whole(1, MOST_APPROVED)("newest", newest)
        span = _read_span(start, end)

        def work(tx: Tx) -> CatchupDecision:
            snapshot, held = self._held(tx, name)
            since = span[0] if most is None else newest_since(held, most)
            chosen = _choose(snapshot, held, since, span[1])
            due_times = _approvable(snapshot, chosen)
            rejected, rest = (chosen.rest, []) if reject_rest else ([], chosen.rest)
            decision = chosen.decision(len(due_times), rejected, rest, dry_run)
            if dry_run:
                return decision
            tx.held.replace(snapshot.schedule_id, [one.range for one in rest])
            record_rejected(tx, rejected)
            _run(tx, snapshot, due_times, self._audit.by)
            times = {"start": decision.due_from, "end": decision.due_to}
            told = {"runs": len(due_times), "rejected": decision.rejected or None}
            self._audit.told(tx, "approve_catchup", snapshot, **times, **told)
            return replace(decision, queued_at=tx.now)

        return self._store.read(work) if dry_run else self._store.transact(work)

    def reject(
        self,
        name: str,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        dry_run: bool = False,
    ) -> CatchupDecision:
        """Record held due times as `skipped_by_user`: all, or those from `start` to `end`.

        A backfill can still run them. With `dry_run` nothing changes. Raises Conflict if nothing is
        held there.
        """
        span = _read_span(start, end)

        def work(tx: Tx) -> CatchupDecision:
            snapshot, held = self._held(tx, name)
            chosen = _choose(snapshot, held, *span)
            decision = chosen.decision(0, chosen.inside, chosen.rest, dry_run)
            if not dry_run:
                tx.held.replace(snapshot.schedule_id, [one.range for one in chosen.rest])
                record_rejected(tx, chosen.inside)
                times = {"start": decision.due_from, "end": decision.due_to}
                number = decision.rejected
                self._audit.told(tx, "reject_catchup", snapshot, **times, rejected=number)
            return decision

        return self._store.read(work) if dry_run else self._store.transact(work)

    def decide(
        self,
        decision: DecisionKind,
        labels: Mapping[str, str] | None = None,
        newest: int | None = None,
        reject_rest: bool = False,
        dry_run: bool = False,
    ) -> BulkDecision:
        """Approve or reject the held due times of all schedules that have all of `labels`; without
        labels, of all schedules.

        Each schedule is decided in its own transaction, as by `approve` and `reject`. Schedules for
        which that fails are counted, and stay unchanged.
        """
        if decision not in get_args(DecisionKind):
            raise Invalid(f"decision {shorten(decision)} is not approve or reject")
        if decision == "reject" and (newest is not None or reject_rest):
            raise Invalid("newest and reject_rest go with approve, not with reject")
        chosen: dict[str, Any] = {"dry_run": dry_run}
        if decision == "approve":
            chosen |= {"newest": newest, "reject_rest": reject_rest}
        act = self.approve if decision == "approve" else self.reject
        done: dict[str, CatchupDecision] = {}
        problems: list[str] = []
        for name in self._names(dict(read_labels("labels", labels or {}))):
            try:
                done[name] = act(name, **chosen)
            except (Conflict, Invalid, NotFound) as error:
                problems.append(f"{name}: {error}")
        return BulkDecision(
            decision,
            len(done),
            tuple(done)[:MOST_TOLD],
            sum(one.approved for one in done.values()),
            sum(one.rejected for one in done.values()),
            sum(one.held for one in done.values()),
            all(one.exact for one in done.values()),
            len(problems),
            tuple(problems[:MOST_TOLD]),
            dry_run,
        )

    def _names(self, labels: Mapping[str, str]) -> NameList:
        """The schedules with held due times that have all of these labels, by name."""

        def work(tx: Tx, after: PagePosition | None) -> tuple[NameList, PagePosition | None]:
            page = tx.held.list_held(self._namespace, "", after, PAGE)
            names = {held.schedule_id: held.schedule for held in page.rows}
            if labels and names:
                known = {s.id: s.spec for s in tx.schedules.get_schedules(list(names))}
                names = {
                    id_: name
                    for id_, name in names.items()
                    if (spec := known.get(id_)) and labels.items() <= dict(spec.labels).items()
                }
            return list(names.values()), page.last

        names, place = self._store.read(lambda tx: work(tx, None))
        while place is not None:
            more, place = self._store.read(lambda tx, place=place: work(tx, place))  # type: ignore[misc]
            names += more
        return list(dict.fromkeys(names))

    def _held(self, tx: Tx, name: str) -> tuple[Snapshot, HeldList]:
        """Lock a schedule and return it with what is held of it; raises Conflict if nothing is."""
        snapshot = tx.plans.snapshot(self._find(tx, name))
        held = held_of(tx, snapshot.schedule_id)
        if not held:
            raise Conflict(f'schedule "{snapshot.name}" has no held due times')
        return snapshot, held

    def _find(self, tx: Tx, name: str) -> str:
        return tx.schedules.find_schedule(self._namespace, name)


def _read_span(
    start: str | datetime | None, end: str | datetime | None
) -> tuple[datetime, datetime]:
    """Raises Invalid for an end before the start."""
    since = _EVER[0] if start is None else parse_instant(start)
    until = _EVER[1] if end is None else parse_instant(end)
    if until < since:
        raise Invalid(f"end {format_instant(until)} is before start {format_instant(since)}")
    return since, until


def _choose(snapshot: Snapshot, held: list[Held], start: datetime, end: datetime) -> Chosen:
    chosen = Chosen.between(held, max(start, _EVER[0]), min(end, _EVER[1]))
    if not chosen.inside:
        first = format_instant(min(one.range.due_from for one in held))
        last = format_instant(max(one.range.due_to for one in held))
        raise Conflict(
            f'schedule "{snapshot.name}" has no held due times in that period; they are from '
            f"{first} to {last}"
        )
    return chosen


def _approvable(snapshot: Snapshot, chosen: Chosen) -> list[datetime]:
    """The due times to run; raises Conflict or Invalid if there are too many."""
    every = (at for one in chosen.inside for at in one.among())
    due_times = sorted(islice(every, MOST_APPROVED + 1))
    if len(due_times) > MOST_APPROVED:
        raise Invalid(
            f"{chosen.count:,} due times are held there; approve at most {MOST_APPROVED:,} at once"
        )
    most = snapshot.spec.max_runs
    if most is not None and snapshot.fired + len(due_times) > most:
        left = max(most - snapshot.fired, 0)
        raise Conflict(
            f"max_runs of {most:,} leaves {counted(left, 'run')}, but {len(due_times):,} due times "
            "are chosen; approve fewer, or raise max_runs"
        )
    return due_times


def _run(tx: Tx, snapshot: Snapshot, due_times: list[datetime], approved_by: str) -> None:
    """Queue their runs; with the last that max_runs allows, the schedule completes."""
    runs = fill(tx, snapshot, due_times, (), Filling(approved_by or None), "catchup")
    tx.held.note_approved(snapshot.schedule_id, len(runs))
    if not snapshot.spec.instant:  # their outcome is reported instead
        tx.lifecycle.record_run_events(runs, "run.late")
    if snapshot.spec.max_runs is not None and snapshot.status == "active":
        tx.plans.commit([plan(tx.plans.snapshot(snapshot.schedule_id), tx.now)], None)
