"""chancy with its executor for coroutines, 500 at once, which fetches more once one has ended."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime

import common
from chancy import Chancy, Queue, Worker, job

QUEUE = Queue(
    "default",
    concurrency=common.BATCH,
    executor="chancy.executors.asyncex.AsyncExecutor",
    polling_interval=1,
    eager_polling=True,
)
LEFT = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')"
logging.getLogger("chancy").setLevel(logging.ERROR)


@job()
async def wait(*, ms: float) -> None:
    await common.perform(ms)


@job()
async def note(*, due: float) -> None:
    await common.note_after_hold(due)


async def main() -> None:
    # jobs are looked up by module name, and the running program is another copy of the module
    import run_chancy as ours

    async with Chancy(common.url()) as chancy:
        match common.mode():
            case "fill":
                await install(chancy)
                number, ms = common.number_and_ms()
                await push(chancy, [ours.wait.job.with_kwargs(ms=ms)] * number)
            case "later":
                await install(chancy)
                jobs = [
                    replace(
                        ours.note.job.with_kwargs(due=at),
                        scheduled_at=datetime.fromtimestamp(at, UTC),
                    )
                    for at in common.times()
                ]
                await push(chancy, jobs)
            case "drain":
                common.wait_for_word()
                async with Worker(chancy, register_signal_handlers=False):
                    while await left(chancy):
                        await asyncio.sleep(0.05)
                print("done", flush=True)
            case "work":
                async with Worker(chancy) as worker:
                    await worker.wait_for_shutdown()


async def install(chancy: Chancy) -> None:
    await chancy.migrate()
    await chancy.declare(QUEUE)


async def push(chancy: Chancy, jobs: list[object]) -> None:
    async for _ in chancy.push_many(jobs, batch_size=1000):
        pass


async def left(chancy: Chancy) -> int:
    async with chancy.pool.connection() as connection:
        cursor = await connection.execute(LEFT)
        (number,) = await cursor.fetchone()
    return number


if __name__ == "__main__":
    asyncio.run(main())
