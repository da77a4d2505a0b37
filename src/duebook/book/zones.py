"""Which due times of all schedules move with other time zone data; changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten
from duebook.model.zones_diff import YEAR, MovedSchedule, ZonesDiff
from duebook.planner.moved import counts_from_anchor, moved_due_times, zones_of
from duebook.timetext import format_duration, parse_duration
from duebook.triggers.other_zones import no_step, open_wheel
from duebook.triggers.zones import to_seconds, tzdata_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.budget import Budget
    from duebook.store.base import Store, Tx
    from duebook.store.values import Account
    from duebook.triggers.other_zones import Interval, OtherZones

    Step = Callable[[], None]

__all__ = ["Zones", "diff_zones", "read_ahead"]

MOST_AHEAD: Final = timedelta(days=3660)
REMEDY: Final = "use the command line with --database, or a shorter `ahead`"
PAGE: Final = 1_000
FIRST: Final = 10
"""Moved due times that are listed for each schedule."""
SINCE: Final = to_seconds(datetime(1970, 1, 1, tzinfo=UTC))
"""All anchors of schedules are later."""


class Zones:
    """Compares the time zone data of a wheel with that of this process."""

    def __init__(self, store: Store, budget: Budget | None = None) -> None:
        self._store = store
        self._budget = budget

    def diff(self, wheel: bytes, ahead: timedelta | str = YEAR) -> ZonesDiff:
        """Show which due times of all namespaces would move with the data of a tzdata wheel.

        Nothing is changed. Raises Invalid for anything but a wheel.
        """
        length = read_ahead(ahead)
        with open_wheel(wheel) as other:
            return diff_zones(self._store, other, length, self._budget)


def read_ahead(ahead: timedelta | str) -> timedelta:
    """How far to compare; raises Invalid."""
    length = parse_duration(ahead)
    if length > MOST_AHEAD:
        raise Invalid(f"ahead {shorten(ahead)} is longer than {format_duration(MOST_AHEAD)}")
    return length


def diff_zones(
    store: Store, other: OtherZones, ahead: timedelta = YEAR, budget: Budget | None = None
) -> ZonesDiff:
    """Compare the due times of every active or paused schedule, of all namespaces.

    Computes only schedules in zones whose rules differ, and only where these differ. Raises
    OverBudget.
    """
    step = partial(budget.spend, REMEDY) if budget else no_step
    return store.read(lambda tx: _diff(tx, other, ahead, step), patient=True)


def _diff(tx: Tx, other: OtherZones, ahead: timedelta, step: Step) -> ZonesDiff:
    until = tx.now.replace(microsecond=0) + ahead
    differing = other.differing(SINCE, to_seconds(tx.now), to_seconds(until), step)
    missing, used = set(other.missing()), set[str]()
    looked, found = 0, []
    for account in _accounts(tx):
        step()
        spec = account.revisions[0].spec
        if spec is None:
            continue
        looked += 1
        zones = zones_of(spec)
        used |= zones & missing
        changed = [differing[tz] for tz in zones & differing.keys()]
        stretches = _merged([one for zone in changed for one in zone.stretches])
        if any(zone.before for zone in changed) and counts_from_anchor(spec):
            stretches = [(to_seconds(tx.now), to_seconds(until))]
        if stretches and (moved := _moved(account, other, stretches, tx.now, step)) is not None:
            found.append(moved)
    ahead_only = sorted(name for name, zone in differing.items() if zone.stretches)
    names = tuple(ahead_only), tuple(sorted(used))
    return ZonesDiff(tzdata_version(), other.version, until, *names, looked, tuple(found))


def _moved(
    account: Account, other: OtherZones, stretches: list[Interval], now: datetime, step: Step
) -> MovedSchedule | None:
    spec = account.revisions[0].spec
    assert spec is not None  # noqa: S101 - the caller has looked
    moved, complete = moved_due_times(
        spec, account.exceptions, account.name, other.name_of, stretches, now, step
    )
    if not moved:
        return None
    return MovedSchedule(account.title, spec.tz, len(moved), complete, tuple(moved[:FIRST]))


def _merged(stretches: list[Interval]) -> list[Interval]:
    """Ranges of several zones merged, so that no due time counts twice."""
    found: list[Interval] = []
    for low, high in sorted(stretches):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _accounts(tx: Tx) -> Iterator[Account]:
    after = ""
    while page := tx.checks.list_active(after, PAGE, paused=True):
        yield from page
        after = page[-1].id
