"""How a command is asked to end: the signal it gets first, and how long it has; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from duebook.errors import Invalid, shorten
from duebook.timetext import parse_duration

__all__ = ["DEFAULT_SIGNAL", "LONGEST_GRACE", "STOP_SIGNALS", "read_stop_grace", "read_stop_signal"]

DEFAULT_SIGNAL: Final = "SIGTERM"
STOP_SIGNALS: Final = (
    *(DEFAULT_SIGNAL, "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGALRM"),
    *("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGKILL"),
)
LONGEST_GRACE: Final = timedelta(days=1)


def read_stop_signal(part: str, value: Any) -> str:
    """The whole name of a signal, which may be given without SIG; raises Invalid."""
    if isinstance(value, str):
        for name in STOP_SIGNALS:
            if value in (name, name.removeprefix("SIG")):
                return name
    raise Invalid(f"{part} {shorten(value)} is not one of {', '.join(STOP_SIGNALS)}")


def read_stop_grace(part: str, value: Any) -> timedelta:
    """Raises Invalid for what is not a length of time of at most a day."""
    try:
        length = parse_duration(value)
    except Invalid:
        raise Invalid(f"{part} {shorten(value)} is not a length of time such as 30s") from None
    if length > LONGEST_GRACE:
        raise Invalid(
            f"{part} {shorten(value)} is longer than 1 day, the most that a command can have to end"
        )
    return length
