"""A Celery app for tests: its tasks leave evidence in a file outside the database.

REDIS is the socket of its broker and result backend, EVIDENCE the file; BROKER may be another way
to the broker.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

PLACE = f"redis+socket://{os.environ['REDIS']}"
app = Celery("program", broker=os.environ.get("BROKER", PLACE), backend=PLACE)
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    task_routes={f"{__name__}.steady": {"queue": "steady"}},
    beat_schedule={
        "Steady entry": {
            "task": f"{__name__}.steady",
            "schedule": 1.0,
            "args": ("{{ 1 }}",),
        }
    },
)


def leave(task: Any, word: str) -> None:
    """A line in one write, so that lines of many processes stay whole."""
    line = f"{word} {task.request.id} {os.getpid()} {time.time()}\n"
    descriptor = os.open(os.environ["EVIDENCE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.task(bind=True)
def steady(self: Any, text: str) -> str:
    leave(self, "steady")
    return text


@app.task(bind=True)
def risky(self: Any) -> None:
    leave(self, "risky")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def fail(text: str) -> None:
    raise ValueError(text)


@app.task
def large(size: int) -> str:
    return "x" * size


@app.task(bind=True)
def held(self: Any, path: str) -> str:
    """Goes on until there is a file."""
    leave(self, "held")
    while not os.path.exists(path):  # noqa: PTH110 - for the sake of few imports
        time.sleep(0.02)
    return "let go"
