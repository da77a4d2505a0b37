"""What a type checker reports to a user: programs outside the tree, with the installed package."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import pytest

RIGHT = """
from datetime import timedelta
from duebook import Context, Duebook, Output, Retry, cron, every
from duebook.testing import Simulation

book = Duebook("books.db", app="reports")


@book.task
def plain(ctx: Context, audience: str = "all") -> dict[str, int]:
    ctx.log.info("due %s", ctx.schedule.due_at)
    ctx.progress(0.5, "half")
    return {"sent": len(audience)}


@book.task(
    schedule=[cron("0 9 * * 1-5", tz="Europe/Brussels"), every("15m")],
    payload={"rounds": 3},
    retry=Retry(attempts=3, delay="10s", on=[ConnectionError, "timeout", 75]),
    timeout=timedelta(minutes=5),
    isolation="process",
)
async def train(ctx: Context, rounds: int) -> Output:
    return Output(ref="s3://models/latest")


def test_plain(ctx: Context) -> None:
    sent: int = plain(ctx, "staff")["sent"]


run_id: str = book.enqueue(plain, {"audience": "staff"}, key="one", delay="5m").id
reveal_type(plain)
reveal_type(train)
ended: dict[str, object] = book.enqueue(plain, key="one", unique="pending").wait("30s").output


async def main() -> None:
    run = await book.aio.enqueue(plain, {"audience": "staff"}, key="one", debounce="5s")
    what: str = run.result
    done: str = (await book.aio.wait(run, timeout=30)).status
    every_name: list[str] = [one.name for one in await book.aio.schedules.list(limit=10)]


with book.running(slots=3, queues=["mail"]):
    names: list[str] = [schedule.name for schedule in book.schedules.list()]
with Simulation(start="2026-02-07T00:30:00Z") as sim:
    sim.task("etl", takes="65m")
    statuses: list[str] = [run.status for run in sim.runs("etl")]
"""


OUTPUT = "duebook.targets.outcomes.Output]"


def test_the_package_says_that_it_is_typed() -> None:
    assert (files("duebook") / "py.typed").is_file()


BEGIN = """
from duebook import Duebook, Retry, cron

book = Duebook("books.db")


@book.task(retry=3)
def ship(order: int) -> None: ...


"""
WRONG = (
    "ship('seventeen')",
    "Retry(attempts='three')",
    "book.task(retry='often')",
    "book.task(isolation='planet')",
    "book.task(overlap='sometimes')",
    "book.task(schedule=cron(9))",
    "book.task(tiemout='5m')",
    "book.enqueue('ship', ['order'])",
    "book.enqueue('ship', dely='5m')",
    "book.enqueue('ship', key='k', unique=3)",
    "_ = book.aio.enqueue('ship', dely='5m')",
    "got = book.aio.runs.get(run=3)",
    "book.schedules.create('ship', trigger=cron('0 9 * * *'), target=3)",
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The output of mypy --strict for a right and a wrong program, without our settings."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {"right.py": RIGHT, "wrong.py": BEGIN + "\n".join(WRONG)}
    for name, program in programs.items():
        (folder / name).write_text(program)
    words = ["--strict", "--no-incremental", "--config-file=", "--cache-dir=/dev/null"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "mypy", *words, *programs],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {name: [line for line in lines if line.startswith(f"{name}:")] for name in programs}


def test_a_right_program_has_no_error_and_tasks_keep_their_types(
    said: dict[str, list[str]],
) -> None:
    told = "\n".join(said["right.py"])
    assert " error: " not in told, told
    plain, train = re.findall(r'Revealed type is "(.*)"', told)
    assert plain.endswith("Context, audience: str =) -> dict[str, int]")
    assert train.endswith("Context, rounds: int) -> typing.Coroutine[Any, Any, " + OUTPUT)


def test_each_mistake_is_found_where_it_is(said: dict[str, list[str]]) -> None:
    """Shows that the check can fail: a program with a mistake in each line."""
    errors = [line for line in said["wrong.py"] if " error: " in line]
    found = [int(line.split(":")[1]) for line in errors]
    first = BEGIN.count("\n") + 1
    assert found == [first + number for number in range(len(WRONG))], errors
