"""Celery beat with schedules in memory and Redis as its broker; it only sends, and runs no tasks.

Its URL is that of Redis.
"""

from __future__ import annotations

import signal
import threading
import time
from datetime import timedelta

import celery
import common
from celery.beat import Scheduler

NEVER = timedelta(days=9)


def main() -> None:
    app = celery.Celery(broker=common.url())
    app.conf.beat_max_loop_interval = 5
    mode = common.mode()
    if mode == "drain":
        number, _ = common.number_and_ms()
        scheduler = filled(app, number)
        common.wait_for_word()
        while scheduler.tick() == 0:
            pass
        print("done", flush=True)
    elif mode == "work":
        over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        scheduler = filled(app, 1)
        noted = False
        while not over.wait(wait := scheduler.tick()):
            if not noted and wait == 0:
                noted = True
                common.note(time.time())


def filled(app: celery.Celery, number: int) -> Scheduler:
    """A scheduler with this many schedules, all due at once and then not again for days."""
    scheduler = Scheduler(app)
    past = app.now() - 2 * NEVER
    for n in range(number):
        scheduler.add(name=f"job-{n}", task="job", schedule=NEVER, last_run_at=past, args=(0,))
    return scheduler


if __name__ == "__main__":
    main()
