"""APScheduler 3 with its job store on PostgreSQL, and 50 threads."""

from __future__ import annotations

import logging
import signal
import threading
import time
from datetime import UTC, datetime

import common
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

logging.getLogger("apscheduler").setLevel(logging.ERROR)
lock = threading.Lock()


def job(ms: float) -> None:
    if ms:
        time.sleep(ms / 1e3)
    with lock:
        common.Counter.ended += 1


def note(due: float) -> None:
    time.sleep(common.HOLD)
    common.note(due)


def main() -> None:
    store = SQLAlchemyJobStore(common.url().replace("postgresql:", "postgresql+psycopg:"))
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(common.CONCURRENCY)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    # jobs are looked up by module name, and the running program is another copy of the module
    import run_apscheduler3 as ours

    match common.mode():
        case "fill":
            scheduler.start(paused=True)
            number, ms = common.number_and_ms()
            for _ in range(number):
                scheduler.add_job(ours.job, "date", run_date=datetime.now(UTC), args=[ms])
        case "later":
            scheduler.start(paused=True)
            for at in common.times():
                when = datetime.fromtimestamp(at, UTC)
                scheduler.add_job(ours.note, "date", run_date=when, args=[at])
        case "drain":
            number, _ = common.number_and_ms()
            common.wait_for_word()
            scheduler.start()
            while common.Counter.ended < number:
                time.sleep(0.005)
            print("done", flush=True)
        case "work":
            over = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: over.set())
            scheduler.start()
            over.wait()
    scheduler.shutdown(wait=False)


if __name__ == "__main__":
    main()
