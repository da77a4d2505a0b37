"""A loop around a courier: delivers until it is stopped, and waits out outages."""

from __future__ import annotations

import logging
import time
from math import inf
from typing import TYPE_CHECKING, Final

from duebook.backoff import backoff
from duebook.errors import DuebookError
from duebook.randomness import fraction

if TYPE_CHECKING:
    import threading

    from duebook.delivery.courier import Courier
    from duebook.store.base import Store

__all__ = ["serve"]

log = logging.getLogger(__name__)

LONGEST: Final = 1.0
"""Seconds after which an idle loop checks whether to stop."""


def serve(store: Store, courier: Courier, stop: threading.Event, lingers: float = inf) -> None:
    """Step until `stop` is set, or nothing came for `lingers` seconds; then release the
    partitions."""
    seen = failures = 0
    busy_at = time.monotonic()
    courier.begin_beating()
    try:
        while not stop.is_set() and time.monotonic() - busy_at < lingers:
            try:
                wait = min(courier.step(), lingers)
                failures = 0
                if not wait:
                    busy_at = time.monotonic()
                if wait:
                    seen = _wait(store, seen, wait, stop)
            except Exception as error:
                failures += 1
                if isinstance(error, DuebookError):
                    log.warning("%s: %s", courier.consumer.name, error)
                else:
                    log.exception("%s: a delivery failed; retrying", courier.consumer.name)
                courier.hurry()
                stop.wait(backoff(failures, fraction(courier.member, failures)))
    finally:
        courier.close()


def _wait(store: Store, seen: int, seconds: float, stop: threading.Event) -> int:
    until = time.monotonic() + seconds
    grown = seen
    while grown == seen and not stop.is_set() and (left := until - time.monotonic()) > 0:
        grown = store.wait_for_log(seen, min(left, LONGEST))
    return grown
