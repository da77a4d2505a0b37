"""The facts that the checks of doctor use, from one view of the database; judges only whether
schedules wait for the right time."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from duebook.balance import expected_state, is_too_late
from duebook.lazy_dataclasses import dataclass
from duebook.model.event_target import EventTarget
from duebook.model.flow_target import FlowTarget
from duebook.model.secret_values import names_in
from duebook.model.target import worker_task
from duebook.targets.templates import spec_secrets
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
    from duebook.store.health_values import Health
    from duebook.store.values import Account

__all__ = [
    "LOOKED",
    "PAGE",
    "Facts",
    "Misplaced",
    "Schedules",
    "gather",
    "misplaced",
    "title_of",
]

T = TypeVar("T")
LOOKED: Final = 5_000
"""Active schedules that are always checked; more are checked as far as the budget allows."""
PAGE: Final = 500
MOST: Final = 100
"""Sessions and schedules that are named; if there are more, the number is given."""
GRACE: Final = timedelta(minutes=1)
"""How long a schedule may be overdue."""
ZONELESS: Final = ("UTC", "Etc/UTC")


class Misplaced(NamedTuple):
    """A schedule that waits for a time other than its definition yields."""

    id: str
    namespace: str
    name: str
    title: str
    waits_for: datetime | None
    """the due time, or the time of the next check, in the database"""
    due_at: datetime | None
    """the right due time"""
    is_moved: bool
    """whether it was computed with other time zone data; if not, it is checked too late"""


class Some(Generic[T]):
    """The first of many, and how many there are."""

    __slots__ = ("first", "number")

    def __init__(self) -> None:
        self.first: list[T] = []
        self.number = 0

    def add(self, one: T) -> None:
        self.number += 1
        if self.number <= MOST:
            self.first.append(one)


@dataclass(slots=True)
class Schedules:
    """What was found about the active schedules."""

    number: int = 0
    complete: bool = True
    """False: there are more"""
    late: Some[Misplaced] = field(default_factory=Some)
    """schedules that will be checked too late, or never"""
    moved: Some[Misplaced] = field(default_factory=Some)
    """schedules whose next due time was computed with other time zone data"""
    unreadable: Some[str] = field(default_factory=Some)
    queues: dict[str, str] = field(default_factory=dict)
    """each queue that schedules name, with the first of these schedules"""
    tasks: dict[tuple[str, str], str] = field(default_factory=dict)
    """namespace and task, with the first schedule that runs it"""
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    """namespace and secret, with the first schedule or flow that names it"""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts that the checks use."""

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
    longest_keep: timedelta
    tzdata: str


def gather(tx: Tx, budget: Budget) -> Facts:
    """Read everything at once, with few queries; schedules until the budget is used up."""
    return Facts(
        tx.now,
        tx.status.health(GRACE),
        tx.checkups.database(),
        tx.checkups.clock_ahead,
        tx.checkups.clock_behind,
        tuple(tx.upkeep.list_clock_steps()),
        tuple(tx.checkups.list_expired_sessions(MOST)),
        tuple(title_of(*found) for found in tx.checkups.list_asleep(MOST)),
        _with_flows(_look_at(_accounts(tx, budget), tx.now), tx.checkups.list_secret_flows(MOST)),
        tx.checkups.oldest_end(),
        tx.history.keeps().longest,
        tzdata_version(),
    )


def _accounts(tx: Tx, budget: Budget) -> Iterator[Account | None]:
    """The active schedules; ends with None if there are more."""
    after, number = "", 0
    while page := tx.checks.list_active(after, PAGE):
        yield from page
        after, number = page[-1].id, number + len(page)
        if len(page) < PAGE:
            return
        if number >= LOOKED and budget.is_spent:
            yield None
            return


def _look_at(accounts: Iterable[Account | None], now: datetime) -> Schedules:
    """What these schedules wait for and need; a None among them means that there are more."""
    found = Schedules()
    for account in accounts:
        if account is None:
            found.complete = False
            break
        found.number += 1
        spec = account.revisions[0].spec
        if spec is None:
            found.unreadable.add(account.title)
            continue
        _note_needs(found, account, spec)
        if (wrong := misplaced(account, now)) is not None:
            (found.moved if wrong.is_moved else found.late).add(wrong)
    return found


def _with_flows(found: Schedules, flows: Iterable[tuple[str, str, str]]) -> Schedules:
    """Add the secrets that flow files name."""
    for namespace, name, source in flows:
        for secret in sorted(names_in(source)):
            found.secrets.setdefault((namespace, secret), f"flow {title_of(namespace, name)}")
    return found


def _note_needs(found: Schedules, account: Account, spec: ScheduleSpec) -> None:
    for secret in sorted(spec_secrets(spec)):
        place = _namespace(account), secret
        found.secrets.setdefault(place, f"schedule {account.title}")
    if isinstance(spec.target, EventTarget | FlowTarget):
        return
    found.queues.setdefault(spec.queue, account.title)
    if (needed := worker_task(spec.target)) is not None:
        place = _namespace(account), needed
        found.tasks.setdefault(place, account.title)


def misplaced(account: Account, now: datetime) -> Misplaced | None:
    """A schedule that waits for the wrong time; schedules that are asleep are found separately."""
    expected = None if account.wake_at is None else expected_state(account)
    if expected is None:
        return None
    stored = account.next_due_at
    about = account.id, _namespace(account), account.name, account.title
    if stored is not None and stored > now and _is_moved(account, expected, stored):
        return Misplaced(*about, stored, expected.due_at, is_moved=True)
    if is_too_late(account, expected, now):
        return Misplaced(*about, account.wake_at, expected.due_at, is_moved=False)
    return None


def _is_moved(account: Account, expected: Expected, stored: datetime) -> bool:
    """Whether its time zone's rules no longer yield the stored due time."""
    zoned = any(getattr(t, "tz", "UTC") not in ZONELESS for t in expected.spec.triggers)
    return zoned and not account.seen and not expected.due.yields(stored)


def _namespace(account: Account) -> str:
    return account.title.rpartition("/")[0] or "default"


def title_of(namespace: str, name: str) -> str:
    """The name of a schedule, with its namespace unless that is `default`."""
    return name if namespace == "default" else f"{namespace}/{name}"
