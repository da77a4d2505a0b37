"""Writes what must not be lost: tries again while the books cannot be reached."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx

__all__ = ["persist"]

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0


def persist(store: Store, work: Callable[[Tx], T], give_up: Callable[[], bool]) -> T | None:
    """The result of `work` once it is durable; None when `give_up` says that it is pointless."""
    wait = FIRST_WAIT
    pause = threading.Event()
    while True:
        try:
            return store.transact(work)
        except Unavailable as error:
            if give_up():
                log.warning("gave up writing: %s", error)
                return None
            log.warning("%s; trying again", error)
        pause.wait(wait)
        wait = min(wait * 2, LONGEST_WAIT)
