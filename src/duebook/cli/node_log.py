"""The log of a node on stderr: what it shows, in lines that cannot steer a terminal."""

from __future__ import annotations

import logging

from duebook.errors import printable

__all__ = ["begin_log", "log_level"]


def log_level(quiet: bool, verbose: bool) -> int:
    """The level of what is shown of Duebook's own lines."""
    if verbose:
        return logging.DEBUG
    return logging.WARNING if quiet else logging.INFO


def begin_log(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Harmless("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler])
    logging.getLogger("duebook").setLevel(level)


class _Harmless(logging.Formatter):
    """Whatever a task puts into its error, the lines of the node cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).replace("\t", "    ").split("\n")
        return "\n".join(map(printable, lines))
