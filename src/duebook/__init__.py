"""Duebook: a durable, distributed scheduler. Every due time is accounted for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duebook.errors import DuebookError, InvalidTime, InvalidTrigger
from duebook.triggers import at, cron, daily, every, rrule, weekly
from duebook.version import __version__

if TYPE_CHECKING:
    from duebook.app import Duebook
    from duebook.model.retry import Retry
    from duebook.targets.context import Context
    from duebook.targets.outcomes import Cancelled, Output

__all__ = [
    "Cancelled",
    "Context",
    "Duebook",
    "DuebookError",
    "InvalidTime",
    "InvalidTrigger",
    "Output",
    "Retry",
    "__version__",
    "at",
    "cron",
    "daily",
    "every",
    "rrule",
    "weekly",
]

_LATER = {
    "Cancelled": "duebook.targets.outcomes",
    "Context": "duebook.targets.context",
    "Duebook": "duebook.app",
    "Output": "duebook.targets.outcomes",
    "Retry": "duebook.model.retry",
}


def __getattr__(name: str) -> Any:
    """Import the modules that need a database on first use, so that triggers import quickly."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
