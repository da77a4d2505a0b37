"""A connection that does not wait for ever, and what the driver's errors mean to Duebook."""

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
"""The books have a schema of their own, so that their names meet nobody else's."""
BRIEF: Final = 5.0
"""Seconds within which a server answers what costs it nothing, unless the network is broken."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One that waits `patience` seconds for the answer to a statement, and then is closed.

    The server limits statements as well, but a network that swallows everything tells nobody.
    None is for what may take hours.
    """

    patience: float | None = BRIEF
    used = False
    """before: it may have broken since, and nobody noticed"""
    given_back_at: float | None = None
    """when it was used last, by the monotonic clock"""

    keeps_plans = False
    """whether it always leads to the same session of the server, which then keeps plans"""
    prepared: set[str] | None
    """the statements that the session keeps; None when a message that prepared some failed"""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.prepared = set()

    def is_awake(self, seconds: float) -> bool:
        """Whether it is new, or was used so short a time ago."""
        given = self.given_back_at
        return given is None or time.monotonic() - given < seconds

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **named: Any) -> T:
        """What the driver calls for everything that needs the network."""
        return super().wait(
            gen if self.patience is None else self._limited(gen), *arguments, **named
        )

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The driver resumes `gen` ten times a second, also when nothing came."""
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
                # if it was this process that stood still, the next look finds the answer
                is_over = not ready and time.monotonic() > deadline
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Driver errors that say something about the database become ours, with its place.

    Those about what was written stay: they are a mistake of ours, or of the data.
    """
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected):
        raise  # worth another try at once
    except (
        errors.ReadOnlySqlTransaction,
        errors.InsufficientPrivilege,
        errors.IdleInTransactionSessionTimeout,
        psycopg.OperationalError,
        psycopg.InterfaceError,
    ) as error:
        raise Unavailable(trouble(place, error)) from error
