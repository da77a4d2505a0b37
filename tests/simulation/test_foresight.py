"""What `simulate` says equals what the simulation of whole nodes does."""

from __future__ import annotations

from collections import Counter
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.foresight.entry import Entry, micros
from duebook.foresight.simulate import simulate
from duebook.testing import Simulation
from duebook.timetext import parse_duration
from tests.support.examples import some_of

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot
    from duebook.model.queue import QueueLimiter

START = datetime(2026, 3, 28, 22, tzinfo=UTC)  # clocks in Europe change three hours later
TRIGGERS: list[Any] = [
    {"every": "7m"},
    {"every": "15m"},
    {"every": "1h"},
    {"cron": "*/10 * * * *", "tz": "Europe/Brussels"},
    {"cron": "0 * * * *"},
    {"cron": "5,6,7 * * * *"},
    {"daily": ["02:30", "02:35", "03:10"], "tz": "Europe/Brussels"},
    [{"cron": "*/20 * * * *"}, {"every": "17m"}],
]
POLICIES = {
    "overlap": st.sampled_from(["skip", "queue", "latest", "cancel", "allow"]),
    "jitter": st.sampled_from(["30s", "2m", "20m"]),
    "max_runs": st.integers(1, 12),
    "max_concurrent": st.integers(1, 2),
    "priority": st.integers(-1, 1),
    "expire_after": st.sampled_from(["5m", "20m"]),
    "catchup": st.sampled_from(["skip", "all"]),
    "exclude": st.just(["2026-03-29"]),
    "start_at": st.just("2026-03-28T23:00:00Z"),
    "end_at": st.just("2026-03-29T03:00:00Z"),
}


class Drawn(NamedTuple):
    """A schedule, and how long its runs take."""

    name: str
    definition: dict[str, Any]
    takes: str


@st.composite
def schedules(draw: st.DrawFn) -> list[Drawn]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        definition: dict[str, Any] = {"trigger": draw(st.sampled_from(TRIGGERS))}
        chosen = draw(st.sets(st.sampled_from(sorted(POLICIES)), max_size=3))
        definition |= {name: draw(POLICIES[name]) for name in sorted(chosen | {"overlap"})}
        if "end_at" in definition:  # or it might never be due
            definition.pop("exclude", None)
        if draw(st.integers(0, 4)) == 0:
            retry = {"attempts": 2, "delay": "1m"}
            definition |= {"timeout": "12m", "retry": retry}
        if number and draw(st.integers(0, 3)) == 0:
            within, wait = draw(st.sampled_from([("1h", "10m"), ("20m", "1m"), ("1h", "2h")]))
            upstream = f"s{draw(st.integers(0, number - 1))}"
            definition["depends_on"] = [{"schedule": upstream, "within": within, "wait": wait}]
        takes = draw(st.sampled_from(["0s", "30s", "5m", "10m", "25m", "61m"]))
        found.append(Drawn(f"s{number}", definition, takes))
    return found


LIMITS: list[dict[str, Any]] = [
    {},
    {},
    {"concurrency": 1},
    {"concurrency": 2},
    {"rate": "2/10m"},
    {"concurrency": 0},
]
Account = tuple[list[tuple[int, int | None]], dict[str, int], int, int, int]
"""Due times and when they began, skips by reason; how many runs are cancelled, queued, running."""


def by_nodes(
    sim: Simulation, drawn: list[Drawn], until: datetime
) -> tuple[dict[str, Account], dict[str, Snapshot], list[QueueLimiter]]:
    """What simulated nodes do with these schedules, and what they began with."""
    for one in drawn:
        sim.task(one.name, takes=one.takes)
        sim.book.schedules.create(one.name, target=one.name, **one.definition)
    snapshots, limiters = sim.book.store.read(
        lambda tx: (tx.plans.list_snapshots("default", "", 100)[0], tx.queues.limiters())
    )
    sim.advance_to(until)
    accounts: dict[str, Account] = {}
    for one in drawn:
        runs = sim.runs(one.name)
        skips = Counter[str]()
        for entry in sim.ledger(one.name):
            skips[entry.reason] += entry.count
        skips["expired"] += sum(run.reason == "expired" for run in runs)
        cancelled = [run for run in runs if run.status == "cancelled" and run.reason != "expired"]
        began = [(run, run.started_at) for run in runs if run.attempt and run.due_at is not None]
        accounts[one.name] = (
            sorted(
                (micros(run.due_at), micros(at) if at is not None and run.attempt == 1 else None)
                for run, at in began
                if run.due_at is not None
            ),
            +skips,
            len(cancelled),
            sum(run.status == "queued" for run in runs),
            sum(run.status == "running" for run in runs),
        )
    return accounts, {snapshot.name: snapshot for snapshot in snapshots}, limiters


def account(entry: Entry, like: Account) -> Account:
    """Of a later attempt the books tell only when that began."""
    first = {due for due, at in like[0] if at is not None}
    trace = entry.figures.trace or []
    statuses = [run.status for run in entry.runs]
    return (
        sorted((due, began if due in first else None) for due, began in trace),
        +entry.figures.skips,
        entry.figures.cancelled,
        statuses.count("queued"),
        statuses.count("running"),
    )


@given(
    drawn=schedules(),
    workers=st.sampled_from([None, None, 1, 2, 3]),
    limits=st.sampled_from(LIMITS),
    in_bulk=st.booleans(),
)
@settings(max_examples=some_of(45), deadline=None)
def test_a_simulation_equals_what_nodes_do(
    drawn: list[Drawn], workers: int | None, limits: dict[str, Any], in_bulk: bool
) -> None:
    until = START + timedelta(hours=5)
    with Simulation(start=START, slots=workers or 1_000) as sim:
        if limits:
            sim.book.queues.limit("default", **limits)
        expected, snapshots, limiters = by_nodes(sim, drawn, until)
    entries = []
    for one in drawn:
        entry = Entry(copy(snapshots[one.name]), parse_duration(one.takes), START)
        entry.figures.trace = []
        entries.append(entry)
    simulate(entries, START, until, workers, limiters, in_bulk=in_bulk)
    found = {entry.name: account(entry, expected[entry.name]) for entry in entries}
    assert found == expected
