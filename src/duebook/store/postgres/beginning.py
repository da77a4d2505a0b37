"""The messages that start a transaction: settings that apply to it, never to the connection."""

from __future__ import annotations

from typing import Final, NamedTuple

from duebook.store.postgres.connection import SCHEMA

__all__ = ["READ", "READ_PATIENTLY", "SETTINGS", "WRITE", "Begin", "beginning"]

_LOCAL: Final = {
    "search_path": SCHEMA,
    "timezone": "UTC",
    "plan_cache_mode": "force_generic_plan",  # for what is prepared; the rest has no parameters
    "enable_seqscan": "off",  # a table that is small today would be read for every group of runs
    "enable_bitmapscan": "off",  # it would lock rows in the order of the file, not of their ids
    "jit": "off",
    # a process that stops within a transaction blocks others: well below any lease
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "10s",
}


class Begin(NamedTuple):
    message: bytes
    """starts a transaction, applies its settings, and asks for the time and for a standby"""
    longest: float
    """maximum seconds for each statement, measured by the server"""


def _settings(values: dict[str, str]) -> str:
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in values.items())
    return f"SELECT now(), pg_is_in_recovery(), {calls}"


def beginning(mode: str, longest: int = 10, **changes: str) -> Begin:
    values = {**_LOCAL, "statement_timeout": f"{longest}s", **changes}
    return Begin(f"BEGIN {mode}; {_settings(values)}".encode(), longest)


SETTINGS: Final = f"{_settings(_LOCAL)}; "
"""For statements in the same message that form their own transaction."""
WRITE: Final = beginning("ISOLATION LEVEL READ COMMITTED")
READ: Final = beginning("ISOLATION LEVEL REPEATABLE READ READ ONLY")
READ_PATIENTLY: Final = beginning("ISOLATION LEVEL REPEATABLE READ READ ONLY", longest=60)
