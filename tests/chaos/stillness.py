"""Notices when the machine stalled: a thread for each core reads the clock again and again. Delays
at such times say nothing about a fleet."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from tests.chaos.witness import STANDSTILL, Fault

if TYPE_CHECKING:
    from tests.chaos.witness import Witness

LOOK: Final = 0.05
LATE: Final = 0.2
"""Seconds of delay beyond what is normal on a machine that is only busy."""


class Stillness:
    """Records what it notices as faults, until it is closed."""

    def __init__(self, seen: Witness) -> None:
        self._seen = seen
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(core,), daemon=True)
            for core in os.sched_getaffinity(0)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, core: int) -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        last = time.time()
        while not self._over.wait(LOOK):
            now = time.time()
            if now - last > LOOK + LATE:
                self._seen.faults.append(Fault(STANDSTILL, last, now))
            last = now
