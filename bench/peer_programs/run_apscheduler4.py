"""APScheduler 4 with its data store on PostgreSQL and up to 500 jobs at once."""

from __future__ import annotations

import asyncio
import logging
import signal
from datetime import UTC, datetime, timedelta

import common
from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.date import DateTrigger
from sqlalchemy.ext.asyncio import create_async_engine

logging.getLogger("apscheduler").setLevel(logging.ERROR)


async def job(ms: float) -> None:
    await common.perform(ms)


async def note(due: float) -> None:
    await common.note_after_hold(due)


async def main() -> None:
    engine = create_async_engine(common.url().replace("postgresql:", "postgresql+asyncpg:"))
    store = SQLAlchemyDataStore(engine)
    # tasks are looked up by module name, and the running program is another copy of the module
    import run_apscheduler4 as ours

    async with AsyncScheduler(store, max_concurrent_jobs=common.BATCH) as scheduler:

        async def add(function: object, at: datetime, value: float) -> None:
            await scheduler.add_schedule(
                function, DateTrigger(at), args=[value], misfire_grace_time=timedelta(days=1)
            )

        match common.mode():
            case "fill":
                number, ms = common.number_and_ms()
                for _ in range(number):
                    await add(ours.job, datetime.now(UTC), ms)
            case "later":
                for at in common.times():
                    await add(ours.note, datetime.fromtimestamp(at, UTC), at)
            case "drain":
                number, _ = common.number_and_ms()
                common.wait_for_word()
                await scheduler.start_in_background()
                while common.Counter.ended < number:
                    await asyncio.sleep(0.005)
                print("done", flush=True)
            case "work":
                over = asyncio.Event()
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
                await scheduler.start_in_background()
                await over.wait()


if __name__ == "__main__":
    asyncio.run(main())
