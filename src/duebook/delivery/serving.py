"""A loop around a courier: delivers until it is told to stop, and sits out what is out of reach."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duebook.chance import fraction
from duebook.errors import DuebookError
from duebook.patience import patience

if TYPE_CHECKING:
    import threading

    from duebook.delivery.courier import Courier
    from duebook.store.base import Store

__all__ = ["serve"]

log = logging.getLogger(__name__)


def serve(store: Store, courier: Courier, stop: threading.Event) -> None:
    """Step until `stop` is set, and leave the partitions to others then."""
    seen = failures = 0
    courier.begin_beating()
    try:
        while not stop.is_set():
            try:
                wait = courier.step()
                failures = 0
                if wait:
                    seen = store.wait_for_log(seen, wait)
            except Exception as error:
                failures += 1
                if isinstance(error, DuebookError):
                    log.warning("%s: %s", courier.consumer.name, error)
                else:
                    log.exception("%s: a delivery broke off; trying again", courier.consumer.name)
                courier.hurry()
                stop.wait(patience(failures, fraction(courier.member, failures)))
    finally:
        courier.close()
