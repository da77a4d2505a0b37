"""Which due times of all schedules move under other time zone data; reads, and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.zones_diff import MovedSchedule, ZonesDiff
from duebook.planner.moved import counts_from_anchor, moved_due_times, zones_of
from duebook.triggers.zones import to_seconds, tzdata_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Store, Tx
    from duebook.store.values import Account
    from duebook.triggers.other_zones import Interval, OtherZones

__all__ = ["YEAR", "diff_zones"]

YEAR: Final = timedelta(days=366)
PAGE: Final = 1_000
FIRST: Final = 10
"""Due times of each schedule that are told."""
SINCE: Final = to_seconds(datetime(1970, 1, 1, tzinfo=UTC))
"""Anchors of schedules are later."""


def diff_zones(store: Store, other: OtherZones, ahead: timedelta = YEAR) -> ZonesDiff:
    """Compare the due times of every active or paused schedule, of all namespaces.

    Only schedules in zones whose rules differ are computed, and only where these do.
    """
    return store.read(lambda tx: _diff(tx, other, ahead), patient=True)


def _diff(tx: Tx, other: OtherZones, ahead: timedelta) -> ZonesDiff:
    until = tx.now.replace(microsecond=0) + ahead
    differing = other.differing(SINCE, to_seconds(tx.now), to_seconds(until))
    missing, used = set(other.missing()), set[str]()
    looked, found = 0, []
    for account in _accounts(tx):
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
        if stretches and (moved := _moved(account, other, stretches, tx.now)) is not None:
            found.append(moved)
    ahead_only = sorted(name for name, zone in differing.items() if zone.stretches)
    names = tuple(ahead_only), tuple(sorted(used))
    return ZonesDiff(tzdata_version(), other.version, until, *names, looked, tuple(found))


def _moved(
    account: Account, other: OtherZones, stretches: list[Interval], now: datetime
) -> MovedSchedule | None:
    spec = account.revisions[0].spec
    assert spec is not None  # noqa: S101 - the caller has looked
    moved, complete = moved_due_times(
        spec, account.exceptions, account.name, other.name_of, stretches, now
    )
    if not moved:
        return None
    return MovedSchedule(account.title, spec.tz, len(moved), complete, tuple(moved[:FIRST]))


def _merged(stretches: list[Interval]) -> list[Interval]:
    """Of several zones, so that no due time counts twice."""
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
