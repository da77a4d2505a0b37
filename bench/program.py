"""A program for measured nodes: a task that does nothing, and tasks that record their start."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from duebook import Context, Duebook

STARTS = "DUEBOOK_BENCH_STARTS"
"""The variable that names the file of starts."""
NOTES = "DUEBOOK_BENCH_NOTES"
HOLD = "DUEBOOK_BENCH_HOLD"
"""Peers know both by the same names."""

book = Duebook()


@book.task
async def job() -> None:
    pass


@book.task
async def note_start(ctx: Context) -> None:
    """Write how many milliseconds after its due time the function actually started."""
    began = time.time()
    assert ctx.schedule.due_at is not None
    with Path(os.environ[STARTS]).open("a") as starts:
        starts.write(f"{(began - ctx.schedule.due_at.timestamp()) * 1e3}\n")


@book.task
async def note_due(ctx: Context) -> None:
    """Write when it was due and when it started, as the jobs of peers do; first wait if that is
    configured."""
    if hold := float(os.environ.get(HOLD, "0")):
        await asyncio.sleep(hold)
    assert ctx.schedule.due_at is not None
    with Path(os.environ[NOTES]).open("a") as notes:
        notes.write(f"{ctx.schedule.due_at.timestamp()} {time.time()}\n")
