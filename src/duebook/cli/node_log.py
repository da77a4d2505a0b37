"""The log of a node on stderr: a date and a level on each line, as text or as JSON.

Lines cannot control the terminal, whatever a task's errors contain.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from duebook.errors import printable
from duebook.targets.log_fields import fields_of
from duebook.targets.printing import claim_at_work
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["begin_log", "log_level"]

log = logging.getLogger("duebook.node")


def log_level(quiet: bool, verbose: bool) -> int:
    """The lowest level of Duebook's own messages that is shown."""
    if verbose:
        return logging.DEBUG
    return logging.WARNING if quiet else logging.INFO


def begin_log(level: int, form: str = "text") -> Callable[[str], None]:
    """Start logging in a `form` of LOG_FORMATS; returns the function that announces the node.

    Announcements are printed on stdout, or logged if the form is JSON, so that every line is JSON.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler])
    logging.getLogger("duebook").setLevel(level)
    return log.info if form == "json" else click.echo


def _at(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


class _TextFormatter(logging.Formatter):
    """2026-03-29 04:10:00+02:00 INFO    the message"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        return _at(record).astimezone().isoformat(" ", "seconds")

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).replace("\t", "    ").split("\n")
        return "\n".join(map(printable, lines))


class _JsonFormatter(logging.Formatter):
    """One object per line: at, level, logger, message, and if present the run and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        form = {
            "at": format_instant(_at(record)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        form |= fields_of(record, claim_at_work())
        if record.exc_info:
            form["traceback"] = self.formatException(record.exc_info)
        return json.dumps(form)
