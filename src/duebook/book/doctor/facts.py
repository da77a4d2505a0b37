"""What the checks of doctor are about: facts that one view of the database gives; judges nothing
but whether schedules wait for the right time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.balance import expected_state, is_too_late
from duebook.errors import OverBudget
from duebook.model.event_target import EventTarget
from duebook.model.flow_target import FlowTarget
from duebook.model.target import TaskTarget
from duebook.triggers import tzdata_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from duebook.balance import Expected
    from duebook.budget import Budget
    from duebook.model.checkup import ExpiredSession, FileFacts, ServerFacts
    from duebook.model.clock_step import ClockStep
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx
    from duebook.store.values import Account, Health

__all__ = ["LOOKED", "Facts", "Misplaced", "Schedules", "gather", "look_at", "title_of"]

LOOKED: Final = 5_000
"""Active schedules that are looked at; `duebook db check` looks at all."""
PAGE: Final = 500
MOST: Final = 100
"""Sessions and sleeping schedules that are named."""
GRACE: Final = timedelta(minutes=1)
"""By how much a schedule may be overdue."""
ZONELESS: Final = ("UTC", "Etc/UTC")


class Misplaced(NamedTuple):
    """A schedule that waits for another time than its definition says."""

    id: str
    namespace: str
    name: str
    title: str
    waits_for: datetime | None
    """the due time, or the time to be looked at, that the database has"""
    due_at: datetime | None
    """the one that it should have"""
    tz: str


@dataclass(slots=True)
class Schedules:
    """What a look at the active schedules found."""

    number: int = 0
    complete: bool = True
    """False: there are more"""
    late: list[Misplaced] = field(default_factory=list)
    """those that will be looked at too late, or never"""
    moved: list[Misplaced] = field(default_factory=list)
    """those whose next due time was computed with other time zone data"""
    unreadable: list[str] = field(default_factory=list)
    queues: dict[str, str] = field(default_factory=dict)
    """each queue that one of them names, with the first of these schedules"""
    tasks: dict[tuple[str, str], str] = field(default_factory=dict)
    """namespace and task, with the first schedule that runs it"""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is judged."""

    now: datetime
    health: Health
    database: FileFacts | ServerFacts
    clock_ahead: timedelta
    clock_behind: timedelta
    clock_steps: tuple[ClockStep, ...]
    expired: tuple[ExpiredSession, ...]
    asleep: tuple[str, ...]
    schedules: Schedules
    oldest_end: datetime | None
    tzdata: str


def gather(tx: Tx, budget: Budget | None = None) -> Facts:
    """Everything at once, with few questions; as many schedules as `budget` allows."""
    return Facts(
        tx.now,
        tx.status.health(GRACE),
        tx.checkups.database(),
        tx.checkups.clock_ahead,
        tx.checkups.clock_behind,
        tuple(tx.upkeep.list_clock_steps()),
        tuple(tx.checkups.list_expired_sessions(MOST)),
        tuple(title_of(*found) for found in tx.checkups.list_asleep(MOST)),
        look_at(_accounts(tx), tx.now, budget),
        tx.checkups.oldest_end(),
        tzdata_version(),
    )


def _accounts(tx: Tx) -> Iterator[Account | None]:
    """The first so many active schedules; None after them if there are more."""
    after, number = "", 0
    while page := tx.checks.list_active(after, PAGE):
        yield from page
        after, number = page[-1].id, number + len(page)
        if len(page) < PAGE:
            return
        if number >= LOOKED:
            yield None
            return


def look_at(
    accounts: Iterable[Account | None], now: datetime, budget: Budget | None = None
) -> Schedules:
    found = Schedules()
    for account in accounts:
        try:
            if account is not None:
                _look(found, account, now, budget)
                found.number += 1
                continue
        except OverBudget:
            pass
        found.complete = False
        break
    return found


def _look(found: Schedules, account: Account, now: datetime, budget: Budget | None) -> None:
    if budget is not None:
        budget.spend()
    spec = account.revisions[0].spec
    if spec is None:
        found.unreadable.append(account.title)
        return
    _note_needs(found, account, spec)
    if account.wake_at is None or (expected := expected_state(account, budget)) is None:
        return
    _compare(found, account, expected, now)


def _note_needs(found: Schedules, account: Account, spec: ScheduleSpec) -> None:
    if isinstance(spec.target, EventTarget | FlowTarget):
        return
    found.queues.setdefault(spec.queue, account.title)
    if isinstance(spec.target, TaskTarget):
        place = _namespace(account), spec.target.name
        found.tasks.setdefault(place, account.title)


def _compare(found: Schedules, account: Account, expected: Expected, now: datetime) -> None:
    """Of what is asleep it was told already."""
    stored, tz = account.next_due_at, expected.spec.tz
    about = account.id, _namespace(account), account.name, account.title
    if stored is not None and stored > now and _is_moved(account, expected, stored):
        found.moved.append(Misplaced(*about, stored, expected.due_at, tz))
    elif is_too_late(account, expected, now):
        found.late.append(Misplaced(*about, account.wake_at, expected.due_at, tz))


def _is_moved(account: Account, expected: Expected, stored: datetime) -> bool:
    """Whether the rules of its time zone no longer have the due time that is stored."""
    zoned = any(getattr(t, "tz", "UTC") not in ZONELESS for t in expected.spec.triggers)
    return zoned and not account.seen and not expected.due.yields(stored)


def _namespace(account: Account) -> str:
    return account.title.rpartition("/")[0] or "default"


def title_of(namespace: str, name: str) -> str:
    """The name of a schedule, with its namespace where that is not `default`."""
    return name if namespace == "default" else f"{namespace}/{name}"
