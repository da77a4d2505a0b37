"""Other task queues on PostgreSQL, each as its own documentation says it is quickest.

All perform tasks that do nothing, enqueued beforehand; what is measured is one worker process from
its start until the queue is empty. graphile-worker runs on Node.js, which `make bench` looks for;
the time that Node.js takes to start does not count.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import procrastinate
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.types import QueueExecutionMode

__all__ = [
    "BATCH",
    "CONCURRENCY",
    "graphile_worker_per_second",
    "has_graphile_worker",
    "pgqueuer_per_second",
    "procrastinate_per_second",
]

BATCH = 500
CONCURRENCY = 50
NODE_MODULES = Path(sys.prefix) / "peers-node" / "node_modules"
"""Where `make bench` installs what runs on Node.js."""


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA IF EXISTS graphile_worker CASCADE")
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()


async def pgqueuer_per_second(url: str, number: int) -> float:
    await _empty(url)
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    await connection.execute("VACUUM ANALYZE")
    queuer = PgQueuer(driver)

    @queuer.entrypoint("job")
    async def job(job: Any) -> None:
        pass

    await queries.enqueue(["job"] * number, [None] * number, [0] * number)
    began = time.perf_counter()
    await queuer.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    taken = time.perf_counter() - began
    await connection.close()
    return number / taken


async def procrastinate_per_second(url: str, number: int) -> float:
    await _empty(url)
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20)
    app = procrastinate.App(connector=connector)

    @app.task
    async def job() -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await job.batch_defer_async(*({} for _ in range(number)))
        began = time.perf_counter()
        await app.run_worker_async(
            concurrency=CONCURRENCY, wait=False, install_signal_handlers=False
        )
        taken = time.perf_counter() - began
        rows = await connector.execute_query_all_async(
            "SELECT count(*) AS left FROM procrastinate_jobs WHERE status <> 'succeeded'"
        )
        assert rows[0]["left"] == 0, rows
    return number / taken


def has_graphile_worker() -> bool:
    return shutil.which("node") is not None and (NODE_MODULES / "graphile-worker").is_dir()


async def graphile_worker_per_second(url: str, number: int, local_queue: bool) -> float:
    """With its local queue and its batched completions, or without either."""
    await _empty(url)
    script = str(Path(__file__).with_name("graphile_worker.js"))
    words = ["node", script, url, str(number), "local" if local_queue else "plain"]
    environment = os.environ | {"NODE_PATH": str(NODE_MODULES)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return number / float(json.loads(done.stdout.splitlines()[-1])["seconds"])
