"""Threads that keep calling a step(), even after failures, until their node stops."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from duebook.backoff import backoff
from duebook.errors import DuebookError
from duebook.randomness import fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.engine.alarm import Alarm
    from duebook.engine.measures import Measures
    from duebook.engine.outage_log import OutageLog

__all__ = ["StepThreads"]

log = logging.getLogger(__name__)


class StepThreads:
    """Each waits for its alarm between two steps, as long as the step returned.

    `seed` differs from node to node, so that nodes that failed together do not retry together.
    """

    def __init__(self, outage: OutageLog, measures: Measures, seed: Callable[[], str]) -> None:
        self._seed = seed
        self.begun: list[threading.Thread] = []
        self._outage = outage
        self._measures = measures

    def start(
        self, name: str, step: Callable[[], float], alarm: Alarm, over: threading.Event
    ) -> None:
        thread = threading.Thread(
            target=self._loop, args=(name, step, alarm, over), name=f"duebook-{name}", daemon=True
        )
        self.begun.append(thread)
        thread.start()

    def _loop(
        self, name: str, step: Callable[[], float], alarm: Alarm, over: threading.Event
    ) -> None:
        failures = 0
        while not over.is_set():
            began = time.monotonic()
            try:
                wait = step()
                failures = 0
                self._outage.ended(name)
                alarm.wait(wait)
                continue
            except DuebookError as error:
                self._outage.failed(name, error, began)
            except Exception:  # if the loop ended, the node would only look alive
                log.exception("a step of the %s failed; retrying", name)
            self._measures.step_failed(name)
            failures += 1  # and a ring now does not shorten the wait
            over.wait(backoff(failures, fraction(self._seed(), name, failures)))
