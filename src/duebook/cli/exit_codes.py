"""The exit codes of the command line, and what each means."""

from __future__ import annotations

from typing import Final

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "INVALID",
    "MEANINGS",
    "NOT_ENDED",
    "NOT_FOUND",
    "RUN_FAILED",
    "RUN_PARTIAL",
    "UNREACHABLE",
    "in_help",
]

FAILED: Final = 1
INVALID: Final = 2
NOT_FOUND: Final = 3
UNREACHABLE: Final = 4
RUN_FAILED: Final = 5
RUN_PARTIAL: Final = 6
NOT_ENDED: Final = 7
INTERRUPTED: Final = 130

MEANINGS: Final = {
    0: "success",
    FAILED: "failure, or a problem that a check found",
    INVALID: "wrong usage or invalid input",
    NOT_FOUND: "not found",
    UNREACHABLE: "the database or server cannot be reached",
    RUN_FAILED: "the run that was waited for did not succeed",
    RUN_PARTIAL: "the flow that was waited for continued after a failure",
    NOT_ENDED: "the run that was waited for has not ended in time",
    INTERRUPTED: "interrupted with Ctrl-C",
}


def in_help() -> str:
    """A paragraph of help that click does not wrap."""
    rows = (f"  {code:<4} {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join(("\b", "Exit codes:", *rows))
