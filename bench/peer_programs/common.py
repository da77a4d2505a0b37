"""Common parts of the peers' programs; each runs in its own environment, without Duebook.

    PROGRAM fill URL NUMBER MS                 install what it needs, and enqueue jobs of MS ms
    PROGRAM drain URL NUMBER MS                print "ready", wait for a line, run all, print "done"
    PROGRAM later URL BEGIN RATE SECONDS       as fill, with jobs that start at BEGIN + n / RATE
    PROGRAM work URL FILE                      until SIGTERM; jobs of `later` append to FILE

A line of FILE is when a job should have started, and when it did, in seconds since 1970. With
DUEBOOK_BENCH_HOLD, the job first takes that many seconds. Programs of schedulers without a queue
add schedules that are due once, and run their jobs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

BATCH = 500
CONCURRENCY = 50
NOTES = "DUEBOOK_BENCH_NOTES"
"""The variable that names the file to which jobs append."""
HOLD = float(os.environ.get("DUEBOOK_BENCH_HOLD", "0"))
"""Seconds that a job of `later` takes before it appends."""


class Counter:
    """How many jobs of this process have ended."""

    ended = 0


async def perform(ms: float) -> None:
    if ms:
        await asyncio.sleep(ms / 1e3)
    Counter.ended += 1


async def note_after_hold(due: float) -> None:
    if HOLD:
        await asyncio.sleep(HOLD)
    note(due)


def note(due: float) -> None:
    now = time.time()
    with open(os.environ[NOTES], "a") as file:  # noqa: PTH123
        file.write(f"{due} {now}\n")


def wait_for_word() -> None:
    """Report that work could start, and wait for the signal to start."""
    print("ready", flush=True)
    sys.stdin.readline()


def times() -> list[float]:
    """The start times of the jobs of `later`."""
    begin, rate, seconds = map(float, sys.argv[3:6])
    return [begin + number / rate for number in range(round(rate * seconds))]


def mode() -> str:
    if sys.argv[1] == "work":
        os.environ[NOTES] = sys.argv[3]
    return sys.argv[1]


def url() -> str:
    return sys.argv[2]


def number_and_ms() -> tuple[int, float]:
    return int(sys.argv[3]), float(sys.argv[4])
