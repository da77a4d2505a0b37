"""What is done to several schedules or flows at once locks the states of schedules in one order."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, LiteralString
from urllib.parse import quote

import psycopg
import pytest

from duebook.book import Book
from duebook.book.flow_registry import FlowRegistry
from duebook.engine.advancer import Advancer
from duebook.flows.sync import FlowSync
from duebook.planner.unattended import CHANGING_AGAIN
from duebook.store.postgres.connection import SCHEMA
from tests.support.builders import MINUTE, add_schedule, run_tick, tick
from tests.support.builders import VirtualClock as Clock
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.postgres_stores import LOCK_WAITS, opened, query
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook.store.base import Tx
    from duebook.store.postgres import PostgresStore

NIGHTLY: Final = {"cron": "0 2 * * *"}
TRUE: Final = {"command": ["true"]}
STORED_IN: Final = {
    "schedules": "id",
    "schedule_state": "schedule_id",
    "schedule_labels": "schedule_id",
}
BY_ROWS: Final = (
    "-c enable_indexscan=off -c enable_bitmapscan=off -c enable_nestloop=off "
    "-c enable_mergejoin=off"
)
"""Plans read tables from their beginning to their end, and join by hashes."""
STATE: Final = "SELECT 1 FROM schedule_state WHERE schedule_id = %s FOR UPDATE"
FREE_STATES: Final = "SELECT 1 FROM schedule_state FOR UPDATE SKIP LOCKED"
FLOW_ROW: Final = "SELECT 1 FROM flows WHERE name = %s FOR UPDATE"
RESTART: Final = """
INSERT INTO flow_commands (schedule_id, namespace, flow, kind, due_at)
VALUES ('', 'default', %s, 'restart', %s) RETURNING id
"""
FLOW = """
schedule: {{start: "0 0 29 2 *", stop: "{minute} * * * *"}}
steps: [{{name: work, command: "true"}}]
"""


class Flows:
    """A directory of flows that have begun, and their schedules in the order of their ids."""

    def __init__(self, store: PostgresStore, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        registry = FlowRegistry(store, "default", timedelta(days=1))
        registry.hold([folder.name])
        self._sync = FlowSync([folder], registry)
        self._moment = 0.0
        for name in "abcd":
            self.write(name, 30)
        self.sync()
        self.book = Book(store)
        schedules = sorted(self.book.schedules.list(), key=lambda schedule: schedule.id)
        self.ids = [schedule.id for schedule in schedules]
        self.names = [schedule.name for schedule in schedules]
        for name in self.names:
            self.book.flows.start(name)
        Advancer(store).step()

    def write(self, name: str, minute: int) -> None:
        (self.folder / f"{name}.yaml").write_text(FLOW.format(minute=minute))

    def sync(self) -> None:
        for _ in range(3):
            self._sync.step(self._moment)
            self._moment += 1.0


@contextmanager
def waiting_for(
    url: str, lock: LiteralString, row: str, work: Callable[[], object]
) -> Iterator[None]:
    """Within, `work` waits for a row that somebody else has locked."""
    thread = threading.Thread(target=work)
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute(lock, [row])
        thread.start()
        eventually(lambda: query(url, LOCK_WAITS))
        yield
    thread.join()


def is_free(url: str, lock: LiteralString, row: str) -> bool:
    return bool(query(url, f"{lock} SKIP LOCKED", row))


@pytest.mark.parametrize("cause", ["their schedules", "their files"])
def test_flows_that_end_together_lock_their_schedules_in_the_order_of_their_ids(
    postgres_url: str, tmp_path: Path, cause: str
) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store:
        flows = Flows(store, tmp_path / "flows")
        first, *_, last = flows.names
        if cause == "their schedules":
            clock.advance(30 * MINUTE)
            tick(store)
            work = Advancer(store).step
        else:
            (flows.folder / f"{last}.yaml").unlink()
            flows.write(first, 40)
            work = flows.sync
        with waiting_for(postgres_url, STATE, flows.ids[0], work):
            assert is_free(postgres_url, STATE, flows.ids[-1])
        if cause == "their schedules":
            runs = flows.book.runs.list(flow=last)
            assert all(run.cancel_requested_at is not None for run in runs)
        else:
            assert last not in {flow.name for flow in flows.book.flows.list()}


def test_flows_that_are_restarted_are_locked_in_the_order_of_their_names(
    postgres_url: str, tmp_path: Path
) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store:
        Flows(store, tmp_path / "flows")
        for name in "dcba":
            query(postgres_url, RESTART, name, clock.now)
        with waiting_for(postgres_url, FLOW_ROW, "a", Advancer(store).step):
            assert is_free(postgres_url, FLOW_ROW, "d")
        due = "SELECT name FROM flows WHERE restarting ORDER BY name"
        assert query(postgres_url, due) == [(name,) for name in "abcd"]


def test_chosen_schedules_are_locked_in_the_order_of_their_ids(postgres_url: str) -> None:
    with opened(postgres_url, Clock()) as store:
        book = Book(store)
        for name in "abcd":
            book.schedules.create(name, trigger={"cron": "0 2 * * *"}, target={"command": ["true"]})
        first, *_, last = sorted(book.schedules.list(), key=lambda schedule: schedule.id)

        def pause() -> None:
            book.schedules.act_on("pause", [last.name, first.name])

        with waiting_for(postgres_url, STATE, first.id, pause):
            assert is_free(postgres_url, STATE, last.id)
        assert book.schedules.get(last.name).status == "paused"


@pytest.mark.parametrize("labels", [{}, {"team": "x"}])
def test_what_a_window_selects_is_locked_in_the_order_of_its_ids(
    postgres_url: str, labels: dict[str, str]
) -> None:
    """Not in that of names, of rows, or of hashes: whoever waits for the first has none of the
    others. The plan is one that finds the rows in another order."""
    clock = Clock()
    with opened(f"{postgres_url}&options={quote(BY_ROWS)}", clock) as store:
        book = Book(store)
        form = {"trigger": NIGHTLY, "target": TRUE, "labels": {"team": "x"}}
        book.schedules.create_many([{"name": f"s{40 - n:02}", **form} for n in range(40)])
        first = min(schedule.id for schedule in book.schedules.list(limit=40))
        for table, key in STORED_IN.items():  # so that the first is found last
            query(postgres_url, f"UPDATE {table} SET {key} = {key} WHERE {key} = %s", first)  # noqa: S608
        hour = clock.now, clock.now + 60 * MINUTE
        with waiting_for(
            postgres_url, STATE, first, lambda: book.windows.add("upgrade", *hour, labels)
        ):
            assert len(query(postgres_url, FREE_STATES)) == 39


def test_shadow_mode_begins_after_every_plan_that_did_not_see_it(postgres_url: str) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store:
        book = Book(store)
        planned = book.schedules.create("job", trigger=NIGHTLY, target=TRUE)
        with waiting_for(postgres_url, STATE, planned.id, book.shadow.on):
            clock.advance(MINUTE)  # a plan that goes by this time may still commit
        assert [switch.at for switch in book.shadow.list()] == [clock.now]


def test_a_tick_and_a_takeover_wait_for_each_other(postgres_url: str) -> None:
    clock = Clock()
    free = "SELECT name FROM flow_directories FOR NO KEY UPDATE SKIP LOCKED"
    with opened(postgres_url, clock) as store:
        put_flow(store, CHAIN)
        add_schedule(store, target={"flow": "chain"})
        clock.advance(MINUTE)
        with psycopg.connect(postgres_url, options=f"-c search_path={SCHEMA}") as connection:
            connection.execute("SELECT 1 FROM flow_directories FOR NO KEY UPDATE")
            assert tick(store) == 0, "it waits for nobody, and decides nothing"
        wake_at = store.read(lambda tx: tx.plans.earliest_wake())
        assert wake_at == clock.now + CHANGING_AGAIN
        clock.advance(CHANGING_AGAIN)

        def work(tx: Tx) -> int:
            fired = run_tick(tx)
            assert query(postgres_url, free) == [], "nobody takes it over before the commit"
            return fired

        assert store.transact(work) == 1
        assert query(postgres_url, free) != []
