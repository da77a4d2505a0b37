"""A connection with timeouts, and the translation of the driver's errors to Duebook's."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import errors

from duebook.errors import Unavailable
from duebook.store.postgres.trouble import trouble

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["BRIEF", "SCHEMA", "Connection", "translated"]

T = TypeVar("T")
SCHEMA: Final = "duebook"
"""Duebook has its own schema, so that its names do not collide with others."""
BRIEF: Final = 5.0
"""Seconds for a server's answer to a cheap statement, unless the network is broken."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Waits `patience` seconds for the answer to a statement, and is closed after that.

    The server limits statements as well, but not when a network silently drops everything. None is
    for what may take hours.
    """

    patience: float | None = BRIEF
    used = False
    """used before: it may have broken since without being noticed"""
    given_back_at: float | None = None
    """when it was last used, by the monotonic clock"""

    keeps_plans = False
    """whether it always leads to the same session of the server, which then keeps plans"""
    prepared: set[str] | None
    """the statements that the session keeps; None if a message that prepared some failed"""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.prepared = set()

    def is_awake(self, seconds: float) -> bool:
        """Whether it is new, or was used within this many seconds."""
        given = self.given_back_at
        return given is None or time.monotonic() - given < seconds

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **named: Any) -> T:
        """Called by the driver for everything that needs the network."""
        return super().wait(
            gen if self.patience is None else self._limited(gen), *arguments, **named
        )

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The driver resumes `gen` ten times a second, even if nothing has arrived."""
        patience = self.patience or 0.0
        deadline = time.monotonic() + patience
        is_over = False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if is_over and not ready:
                    self.close()
                    raise errors.ConnectionTimeout(f"no response within {patience:.0f} s")
                # if this process itself was suspended, the next attempt finds the answer
                is_over = not ready and time.monotonic() > deadline
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Translate driver errors about the database to ours, with its place.

    Errors about the data or the statement pass through, as they are mistakes of ours or of the
    data.
    """
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected):
        raise  # worth another attempt at once
    except (
        errors.ReadOnlySqlTransaction,
        errors.InsufficientPrivilege,
        errors.IdleInTransactionSessionTimeout,
        psycopg.OperationalError,
        psycopg.InterfaceError,
    ) as error:
        raise Unavailable(trouble(place, error)) from error
