"""Runs per second of kinds that cost more than a bare no-op: what they wake, limits, events.

    python -m bench.forms [--quick]

Each kind is a no-op in one worker process on PostgreSQL that has already executed the schedules,
and is compared with the plainest one in the same round, so that the plainest is not the only fast
one. With --quick each is run once with few runs, and the figures mean little.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.drain import KINDS, LEFT, execute, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import Goals, interleaved, ratios, show
from bench.server import durable_server
from duebook.book import Book
from duebook.model.consumer import new_consumer
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

    from bench.drain import Kind
    from duebook.targets.context import Context

NUMBER: Final = 5_000
ROUNDS: Final = 3
FLOOR: Final = 0.5
"""The minimum speed of each form, relative to the plainest."""
NO_OP: Final = KINDS[0]


async def publish(ctx: Context) -> None:
    ctx.publish("orders", {"shop": 7}, key="shop-7")


PUBLISHES: Final = replace(NO_OP, function=publish)


def nothing_more(book: Book) -> None:
    """For forms that consist of their schedules alone."""


def limit_concurrency(book: Book) -> None:
    book.queues.limit("default", concurrency=1_000)


def limit_rate(book: Book) -> None:
    book.queues.limit("default", rate="1000000/s")


def follow_runs(book: Book) -> None:
    wanted = new_consumer("default", "audit", "group", ("duebook.runs",), 8, 5)
    book.store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))


@dataclass(frozen=True)
class Form:
    """Runs of one kind: their schedules, the runs of each, and what else it needs."""

    words: str
    more: dict[str, Any] = field(default_factory=dict)
    runs_each: int = 1
    depended_on: bool = False
    prepare: Callable[[Book], None] = nothing_more
    kind: Kind = NO_OP

    def schedules(self, number: int) -> dict[str, dict[str, Any]]:
        names = [f"job-{n}" for n in range(number // self.runs_each)]
        found = dict.fromkeys(names, JOB | self.more)
        if self.depended_on:
            for name in names:
                needs = [{"schedule": name, "within": "1h"}]
                found[f"after-{name}"] = JOB | {"depends_on": needs}
        return found


PLAIN: Final = Form("a run of each schedule")
FORMS: Final = (
    PLAIN,
    Form("  that wakes its schedule: overlap skip", {"overlap": "skip"}),
    Form("  that wakes its schedule: overlap queue", {"overlap": "queue"}),
    Form("  on which another schedule depends", depended_on=True),
    Form("  in a queue with a limit of 1,000 at once", prepare=limit_concurrency),
    Form("  in a queue with a limit of 1,000,000/s", prepare=limit_rate),
    Form("  of 20, with max_concurrent 10", {"max_concurrent": 10}, runs_each=20),
    Form("  that publishes an event", kind=PUBLISHES),
    Form("  while a consumer follows all runs", prepare=follow_runs),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="try everything with few runs")
    options = parser.parse_args()
    number, rounds = (NUMBER // 20, 1) if options.quick else (NUMBER, options.rounds)
    with durable_server() as server:
        sys.exit(report(server, number, rounds))


def report(server: Server, number: int, rounds: int) -> int:
    kinds = {
        form.words: partial(speed, server, form, made_template(server, form, number, place))
        for place, form in enumerate(FORMS)
    }
    found = interleaved(kinds, rounds)
    print(
        f"PostgreSQL {server.version}, runs a second: median of {rounds} rounds, and their spread"
    )
    for what, figures in found.items():
        show(what, figures)
    goals = Goals()
    print("of the plainest")
    for form in FORMS[1:]:
        goals.at_least(form.words, FLOOR, ratios(found[form.words], found[PLAIN.words]))
    return goals.exit_code


def made_template(server: Server, form: Form, number: int, place: int) -> str:
    """The name of a database in which the form's runs are ready."""
    name = f"form_{place}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE template")
    clock = Clock()
    store = PostgresStore(server.url(name), clock)
    add_schedules(store, clock, form.schedules(number))
    fire(store, clock, form.runs_each)
    form.prepare(Book(store))
    store.close()
    execute(server.url(name), "ANALYZE")
    return name


def speed(server: Server, form: Form, template: str) -> float:
    """Measured the second time that all schedules are due."""
    with server.database(template) as url:
        clock = Clock(form.runs_each)
        store = PostgresStore(url, clock)
        with worker(form.kind, store) as perform_all:
            perform_all()
            fire(store, clock, form.runs_each)
            ((number,),) = execute(url, LEFT)
            taken: float = perform_all()
        assert execute(url, LEFT) == [(0,)]
        store.close()
    return float(number / taken)


if __name__ == "__main__":
    main()
