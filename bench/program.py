"""A program for nodes that are measured: a task that does nothing, and one that notes its start."""

from __future__ import annotations

import os
import time
from pathlib import Path

from duebook import Context, Duebook

STARTS = "DUEBOOK_BENCH_STARTS"
"""The variable that names the file of starts."""

book = Duebook()


@book.task
async def job() -> None:
    pass


@book.task
async def note_start(ctx: Context) -> None:
    """Write how many milliseconds after its due time the function really began."""
    began = time.time()
    assert ctx.schedule.due_at is not None
    with Path(os.environ[STARTS]).open("a") as starts:
        starts.write(f"{(began - ctx.schedule.due_at.timestamp()) * 1e3}\n")
