"""Procrastinate, with 50 jobs at once."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import common
import procrastinate

logging.getLogger("procrastinate").setLevel(logging.ERROR)
connector = procrastinate.PsycopgConnector(conninfo=common.url(), min_size=4, max_size=20)
app = procrastinate.App(connector=connector)


@app.task
async def job(ms: float) -> None:
    await common.perform(ms)


@app.task
async def note(due: float) -> None:
    await common.note_after_hold(due)


async def main() -> None:
    async with app.open_async():
        match common.mode():
            case "fill":
                await app.schema_manager.apply_schema_async()
                number, ms = common.number_and_ms()
                await job.batch_defer_async(*({"ms": ms} for _ in range(number)))
            case "later":
                await app.schema_manager.apply_schema_async()
                for at in common.times():
                    when = datetime.fromtimestamp(at, UTC)
                    await note.configure(schedule_at=when).defer_async(due=at)
            case "drain":
                common.wait_for_word()
                await app.run_worker_async(
                    concurrency=common.CONCURRENCY, wait=False, install_signal_handlers=False
                )
                print("done", flush=True)
            case "work":
                await app.run_worker_async(concurrency=common.CONCURRENCY)


asyncio.run(main())
