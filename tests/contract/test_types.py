"""What a type checker tells a user: programs outside the source tree, on the installed package."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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
with book.running(slots=3, queues=["mail"]):
    names: list[str] = [schedule.name for schedule in book.schedules.list()]
with Simulation(start="2026-02-07T00:30:00Z") as sim:
    sim.task("etl", takes="65m")
    statuses: list[str] = [run.status for run in sim.runs("etl")]
"""


OUTPUT = "duebook.targets.outcomes.Output]"


def check(folder: Path, program: str) -> str:
    """What mypy --strict says of it, without any setting of ours."""
    path = folder / "program.py"
    path.write_text(program)
    words = ["--strict", "--no-incremental", "--config-file=", "--cache-dir=/dev/null"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "mypy", *words, path.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_the_package_says_that_it_is_typed() -> None:
    assert (files("duebook") / "py.typed").is_file()


def test_a_right_program_has_no_error_and_tasks_keep_their_types(tmp_path: Path) -> None:
    said = check(tmp_path, RIGHT)
    assert " error: " not in said, said
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    plain, train = revealed
    assert plain.endswith("Context, audience: str =) -> dict[str, int]")
    assert train.endswith("Context, rounds: int) -> typing.Coroutine[Any, Any, " + OUTPUT)


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
    "book.schedules.create('ship', trigger=cron('0 9 * * *'), target=3)",
)


def test_each_mistake_is_found_where_it_is(tmp_path: Path) -> None:
    """The check can fail: one program with a mistake in each line."""
    said = check(tmp_path, BEGIN + "\n".join(WRONG))
    found = [int(line) for line in re.findall(r"py:(\d+): error: ", said)]
    first = BEGIN.count("\n") + 1
    assert found == [first + number for number in range(len(WRONG))], said
