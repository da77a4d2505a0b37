"""Duebook: a durable, distributed scheduler. Every due time is accounted for."""

from __future__ import annotations

from duebook.errors import DuebookError, InvalidTime, InvalidTrigger
from duebook.triggers import at, cron, daily, every, rrule, weekly

__version__ = "0.1.0.dev0"

__all__ = [
    "DuebookError",
    "InvalidTime",
    "InvalidTrigger",
    "__version__",
    "at",
    "cron",
    "daily",
    "every",
    "rrule",
    "weekly",
]
