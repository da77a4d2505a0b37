"""A node's lease and how long it waits for its runs when it stops: the inputs are parsed and
bounded here."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from duebook.errors import Invalid
from duebook.timetext import format_duration, parse_duration

__all__ = ["LEASE", "LONGEST_PULSE", "STOP_WITHIN", "read_lease", "read_stop_within"]

LEASE: Final = timedelta(seconds=30)
"""The default and the shortest: a node may be busy for seconds, and every timeout of the store is
well below it."""
LONGEST_LEASE: Final = timedelta(minutes=10)
LONGEST_PULSE: Final = timedelta(seconds=10)
"""Longest time between two renewals: a third of the shortest lease. A longer lease does not delay
when a node notices what it missed."""
STOP_WITHIN: Final = timedelta(seconds=10)
LONGEST_STOP: Final = timedelta(days=1)


def read_lease(given: str | timedelta) -> timedelta:
    """Raises Invalid unless it is a duration from 30s to 10m."""
    lease = _read("lease", given)
    if not LEASE <= lease <= LONGEST_LEASE:
        raise Invalid(
            f"lease {format_duration(lease)} is not between {format_duration(LEASE)} and "
            f"{format_duration(LONGEST_LEASE)}; a node that dies blocks its runs for that long"
        )
    return lease


def read_stop_within(given: str | timedelta) -> timedelta:
    """Raises Invalid unless it is a duration of up to a day."""
    wait = _read("stop_within", given)
    if not timedelta() <= wait <= LONGEST_STOP:
        raise Invalid(
            f"stop_within {format_duration(wait)} is longer than {format_duration(LONGEST_STOP)}"
        )
    return wait


def _read(name: str, given: str | timedelta) -> timedelta:
    try:
        return parse_duration(given)
    except Invalid as error:
        raise Invalid(f"{name}: {error}") from None
