"""Writes what must not be lost: retries while the database is unavailable."""

from __future__ import annotations

import logging
import threading
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from duebook.backoff import backoff
from duebook.errors import Unavailable
from duebook.randomness import fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx

__all__ = ["persist"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def persist(store: Store, work: Callable[[Tx], T], give_up: Callable[[], bool]) -> T | None:
    """The result of `work` once it is durable; None when `give_up` says to stop trying."""
    pause = threading.Event()
    for failures in count(1):
        try:
            return store.transact(work)
        except Unavailable as error:
            if give_up():
                log.warning("gave up writing: %s", error)
                return None
            log.debug("%s; retrying", error)  # the node's loops log it as a warning, once
        pause.wait(backoff(failures, fraction(id(work), failures)))
    return None
