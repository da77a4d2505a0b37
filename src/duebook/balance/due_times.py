"""Compares a schedule's records with what its definitions yield; pure."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.explain.undue import raw_due_times
from duebook.lazy_dataclasses import dataclass
from duebook.model.finding import Finding
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import Reason
from duebook.planner import (
    UNATTENDED_AGAIN,
    DueTimes,
    control_spec,
    instant_before,
    next_control,
)
from duebook.store.values import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from duebook.model.plan import Kind
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.values import Account, Record

__all__ = [
    "Expected",
    "Window",
    "expected_state",
    "is_too_late",
    "judge",
    "judge_state",
    "windows_of",
]

MOST_COUNTED: Final = 1_000
"""Due times of an entry that are counted again; a larger count may be a lower bound."""
_OF_DAYS: Final = (Reason.EXCLUDED, Reason.CALENDAR)
"""Reasons of entries about whole days of a definition."""
_NOT_BOTH: Final = (Reason.ALREADY_STARTED, Reason.EDITED)
"""Reasons of entries that may exist beside a run of the same due time."""


@dataclass(frozen=True, slots=True)
class Window:
    """A span, open at its start, in which one definition was in force and everything is decided."""

    version: int
    spec: ScheduleSpec
    due: DueTimes
    """what the triggers yield, including excluded days, because those are recorded"""
    after: datetime
    until: datetime
    kind: Kind = "start"


def windows_of(account: Account, low: datetime, kind: Kind = "start") -> list[Window]:
    """The spans in which every due time must be accounted for, oldest first.

    Up to the watermark; all of a deleted schedule, unless it may have been completed before.
    """
    revisions = account.revisions
    decided = account.watermark if kind == "start" else account.controlled_until
    decided = decided if account.deleted_at is None else account.deleted_at
    if decided is None or not revisions:
        return []
    bounded = kind == "start" and any(r.spec and r.spec.max_runs for r in revisions)
    if account.deleted_at is not None and bounded:
        return []
    ends = [*(revision.valid_from for revision in revisions[1:]), decided]
    windows = []
    for revision, end in zip(revisions, ends, strict=True):
        after = max(revision.valid_from, account.created_at, low)
        until = min(end, decided)
        spec = _spec_of(revision.spec, kind)
        if spec is not None and spec.triggers and after < until:
            due = raw_due_times(spec)
            windows.append(Window(revision.version, spec, due, after, until, kind))
    return windows


def _spec_of(spec: ScheduleSpec | None, kind: Kind) -> ScheduleSpec | None:
    """The definition of due times of one kind."""
    return spec if spec is None or kind == "start" else control_spec(spec, kind)


def _about(records: Records, kind: Kind) -> Records:
    """The records of due times of one kind; only those that start something have runs."""
    entries = [entry for entry in records.entries if entry.kind == kind]
    return Records(records.runs if kind == "start" else {}, entries)


class Judge:
    """Compares the records of one schedule with a window of its time."""

    def __init__(self, account: Account, records: Records, kind: Kind = "start") -> None:
        self._account = account
        self._records = _about(records, kind)
        self._kind = kind
        self._specs = {r.version: _spec_of(r.spec, kind) for r in account.revisions}
        self._known: dict[tuple[int, bool], DueTimes | None] = {}

    def covers(self, entry: Record, at: datetime) -> bool:
        if at in (entry.due_from, entry.due_to):
            return True
        if entry.count == 1 or not entry.due_from < at < entry.due_to:
            return False
        excluded = entry.reason in (*_OF_DAYS, Reason.EDITED)
        return self._yields(entry.version, excluded, at)

    def _yields(self, version: int, excluded: bool, at: datetime) -> bool:
        """Whether that definition yields a due time; True if it cannot be read."""
        if version not in self._specs:
            return False
        if (version, excluded) not in self._known:
            spec, account = self._specs[version], self._account
            self._known[version, excluded] = (
                None
                if spec is None
                else raw_due_times(spec)
                if excluded
                else DueTimes(spec, (), account.created_at, account.name)
            )
        due = self._known[version, excluded]
        return due is None or due.knows(at)

    def spans(self, entry: Record, window: Window) -> bool:
        """Whether an entry covers every due time of the window between its first and its last."""
        same = entry.version == window.version and entry.reason != Reason.EDITED
        by_day = window.spec.exclude or window.spec.calendar
        return same and (not by_day or entry.reason in _OF_DAYS)

    def miscounted(self, window: Window) -> Iterator[Finding]:
        """Entries of the window whose count does not match the due times."""
        regular = DueTimes(window.spec, (), self._account.created_at, self._account.name)
        for entry in self._records.entries:
            own = entry.version == window.version and entry.reason != Reason.EDITED
            inside = window.after < entry.due_from < entry.due_to <= window.until
            if not own or not inside or not entry.exact or entry.count >= MOST_COUNTED:
                continue
            due = window.due if entry.reason in _OF_DAYS else regular
            number = due.count(instant_before(entry.due_from), entry.due_to)
            number += not due.knows(entry.due_to)  # a due time that was moved there
            if not number - self._others(entry) <= entry.count <= number:
                text = f"{entry.count} due times are recorded as {entry.reason}, out of {number}"
                yield Finding("I2", text, True, self._account.title, entry.due_from)

    def _others(self, entry: Record) -> int:
        """The number of other records about the due times of a range."""
        runs = sum(entry.due_from <= at <= entry.due_to for at in self._records.runs)
        return runs + sum(
            other.count
            for other in self._records.entries
            if other is not entry
            and other.due_from <= entry.due_to
            and other.due_to >= entry.due_from
        )

    def judge(self, window: Window) -> Iterator[Finding | int]:
        """The findings; and the number of due times that were checked."""
        runs, entries = self._records.runs, self._records.entries
        upcoming = 0
        open_: list[Record] = []
        missing: list[datetime] = []
        due_at, number = window.due.next_after(window.after), 0
        while due_at is not None and due_at <= window.until:
            number += 1
            while upcoming < len(entries) and entries[upcoming].due_from <= due_at:
                open_.append(entries[upcoming])
                upcoming += 1
            open_ = [entry for entry in open_ if entry.due_to >= due_at]
            about = [entry for entry in open_ if self.covers(entry, due_at)]
            run = runs.get(due_at)
            if run is None and not about:
                missing.append(due_at)
            elif missing:
                yield self._missing(missing)
                missing = []
            if run is not None and run[1] != "backfill":
                yield from self._both(due_at, run[0], about)
            ends = [e.due_to for e in about if run is None and self.spans(e, window)]
            due_at = window.due.next_after(max([due_at, *ends]))
        if missing:
            yield self._missing(missing)
        yield number

    def _missing(self, missing: list[datetime]) -> Finding:
        text = "did not run and is not in the ledger"
        if self._kind != "start":
            text = f"a {self._kind} is not in the ledger"
        if len(missing) > 1:
            last = f"{missing[-1]:%Y-%m-%d %H:%M:%S} UTC"
            text += f"; the same is true of every due time up to {last}"
        return Finding("I2", text, True, self._account.title, missing[0])

    def _both(self, due_at: datetime, run_id: str, about: Sequence[Record]) -> Iterator[Finding]:
        """An entry for a single due time that also has a run is found without the triggers."""
        for entry in about:
            if entry.count > 1 and entry.exact and entry.reason not in _NOT_BOTH:
                text = f"ran, but is also recorded as {entry.reason}"
                yield Finding("I2", text, True, self._account.title, due_at, run_id)


def judge(account: Account, window: Window, records: Records) -> tuple[list[Finding], int]:
    """The findings of a window, and how many due times were checked."""
    found: list[Finding] = []
    number = 0
    judge = Judge(account, records, window.kind)
    for told in chain(judge.judge(window), judge.miscounted(window)):
        if isinstance(told, int):
            number += told
        else:
            found.append(told)
    return found, number


class Expected(NamedTuple):
    """What an active schedule should be waiting for, according to its definition."""

    spec: ScheduleSpec
    due: DueTimes
    due_at: datetime | None
    """the first due time that no plan has processed"""
    wake_at: datetime | None
    """when it has to be checked at the latest"""


def expected_state(account: Account) -> Expected | None:
    """None for a schedule that waits for nothing, or that this node cannot read."""
    spec = _planned_spec(account)
    if account.status != "active" or account.watermark is None or spec is None or account.problem:
        return None
    if spec.max_runs is not None and (account.fired or 0) >= spec.max_runs:
        return None
    due = DueTimes(spec, account.exceptions, account.watermark, account.name)
    horizon = account.seen[-1].until if account.seen else account.watermark
    decided = account.controlled_until or account.watermark
    moments = [due.wake_after(horizon), next_control(spec, decided, account.name)]
    wake_at = min((moment for moment in moments if moment is not None), default=None)
    return Expected(spec, due, due.next_after(horizon), wake_at)


def is_too_late(account: Account, expected: Expected, now: datetime) -> bool:
    """Whether it will be checked later than necessary, or never."""
    if isinstance(expected.spec.target, FlowTarget) and account.wake_at is not None:
        now += UNATTENDED_AGAIN  # it may wait for a node to read the flow's directory
    wake_at = expected.wake_at
    return wake_at is not None and (account.wake_at is None or account.wake_at > max(wake_at, now))


def _planned_spec(account: Account) -> ScheduleSpec | None:
    return next((r.spec for r in account.revisions if r.version == account.version), None)


def judge_state(account: Account, now: datetime) -> list[Finding]:
    """Whether the schedule will be checked in time for its next due time."""
    if account.status is not None and _planned_spec(account) is None:
        return [Finding("I2", "has a definition that this node cannot read", False, account.title)]
    expected = expected_state(account)
    if expected is None or not is_too_late(account, expected, now):
        return []
    looked = f"only at {account.wake_at:%Y-%m-%d %H:%M:%S} UTC" if account.wake_at else "never"
    due_at = expected.due_at or expected.wake_at
    return [Finding("I2", f"will be planned {looked}", True, account.title, due_at)]
