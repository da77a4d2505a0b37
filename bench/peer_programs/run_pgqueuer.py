"""pgqueuer, with batches of 500, which its documentation recommends for speed."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import common
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.types import QueueExecutionMode

POLL = timedelta(seconds=1)
"""How often it polls for delayed jobs; 30 s by default."""


async def main() -> None:
    connection = await asyncpg.connect(common.url())
    driver = AsyncpgDriver(connection)
    queries, queuer = Queries(driver), PgQueuer(driver)

    @queuer.entrypoint("job")
    async def job(job: Any) -> None:
        await common.perform(float(job.payload))

    @queuer.entrypoint("note")
    async def note(job: Any) -> None:
        await common.note_after_hold(float(job.payload))

    match common.mode():
        case "fill":
            await queries.install()
            number, ms = common.number_and_ms()
            await queries.enqueue(["job"] * number, [b"%g" % ms] * number, [0] * number)
            await connection.execute("VACUUM ANALYZE")
        case "later":
            await queries.install()
            now, times = datetime.now(UTC).timestamp(), common.times()
            await queries.enqueue(
                ["note"] * len(times),
                [repr(at).encode() for at in times],
                [0] * len(times),
                [timedelta(seconds=max(at - now, 0)) for at in times],
            )
        case "drain":
            common.wait_for_word()
            await queuer.run(batch_size=common.BATCH, mode=QueueExecutionMode.drain)
            print("done", flush=True)
        case "work":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
            await queuer.run(batch_size=common.BATCH, dequeue_timeout=POLL)
    await connection.close()


asyncio.run(main())
