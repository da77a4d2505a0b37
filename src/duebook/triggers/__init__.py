"""Pure time: rules that yield due times, also across daylight-saving changes.

Nothing here reads a database or the machine's own zone files. Only `warnings` reads the clock, for
the current year, if the time is not passed.
"""

from __future__ import annotations

from duebook.triggers.at import at
from duebook.triggers.base import Count, Omission, Trigger, TriggerWarning
from duebook.triggers.cron import cron
from duebook.triggers.daily import daily
from duebook.triggers.every import every
from duebook.triggers.load import load_trigger
from duebook.triggers.rrule import rrule
from duebook.triggers.weekly import weekly
from duebook.triggers.zones import tzdata_version

__all__ = [
    "Count",
    "Omission",
    "Trigger",
    "TriggerWarning",
    "at",
    "cron",
    "daily",
    "every",
    "load_trigger",
    "rrule",
    "tzdata_version",
    "weekly",
]
