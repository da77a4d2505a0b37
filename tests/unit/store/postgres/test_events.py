"""Positions on real PostgreSQL: transactions that commit late, several sequencers, no hole."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.ids import new_id
from duebook.model.event import Event, new_draft
from duebook.store.postgres import PostgresStore
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Tx
    from tests.support.postgres import Server

WRITERS = 3
STAMPERS = 2

ACTS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, WRITERS - 1), st.sampled_from("ab")),
    st.tuples(st.sampled_from(["commit", "rollback"]), st.integers(0, WRITERS - 1), st.just("")),
    st.tuples(st.just("stamp"), st.integers(0, STAMPERS - 1), st.sampled_from(["1", "100"])),
    st.tuples(st.just("read"), st.just(0), st.just("")),
)


@pytest.fixture(scope="module")
def stores(postgres_module_url: str) -> Iterator[list[PostgresStore]]:
    opened = [PostgresStore(postgres_module_url) for _ in range(STAMPERS)]
    yield opened
    for store in opened:
        store.close()


@pytest.fixture(scope="module")
def postgres_module_url(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


class Reader:
    """Goes through the log by position, as consumers do."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.after = store.read(lambda tx: tx.events.last_position())
        self.got: list[Event] = []

    def read(self) -> None:
        batch = self._store.read(lambda tx: tx.events.read_events("default", self.after, 1_000))
        self.after = batch.after
        self.got += batch.events


class History:
    """Who wrote and committed what, and when."""

    def __init__(self, stores: list[PostgresStore], writers: list[psycopg.Connection]) -> None:
        self._stores = stores
        self._writers = writers
        self._pending: dict[int, list[str]] = defaultdict(list)
        self.written: dict[str, int] = {}
        self.committed: dict[str, int] = {}

    def act(self, when: int, what: str, number: int, detail: str) -> None:
        if what == "append":
            self.written[id_ := new_id()] = when
            with self._stores[0].join(self._writers[number]) as tx:
                tx.events.append_events([new_draft(id_, "default", "t", None, detail, 1)])
            self._pending[number].append(id_)
        elif what == "stamp":
            self._stores[number].transact(lambda tx: tx.events.stamp_events(int(detail)))
        elif what in ("commit", "rollback"):
            getattr(self._writers[number], what)()
            done = self._pending.pop(number, [])
            self.committed |= dict.fromkeys(done, when) if what == "commit" else {}


@settings(max_examples=some_of(40))
@given(acts=st.lists(ACTS, min_size=5, max_size=40))
def test_nothing_is_lost_and_no_order_is_broken_however_transactions_commit(
    acts: list[tuple[str, int, str]], stores: list[PostgresStore], postgres_module_url: str
) -> None:
    reader = Reader(stores[0])
    with ExitStack() as stack:
        writers = [
            stack.enter_context(psycopg.connect(postgres_module_url)) for _ in range(WRITERS)
        ]
        history = History(stores, writers)
        ends = [("commit", number, "") for number in range(WRITERS)]
        for when, (what, number, detail) in enumerate([*acts, *ends, ("stamp", 0, "100")]):
            if what == "read":
                reader.read()
            else:
                history.act(when, what, number, detail)
    reader.read()
    assert sorted(event.id for event in reader.got) == sorted(history.committed)
    positions = [event.position or 0 for event in reader.got]
    assert positions == sorted(set(positions))
    for place, event in enumerate(reader.got):
        for later in reader.got[place + 1 :]:
            assert not history.committed[later.id] < history.written[event.id]


def test_a_late_commit_gets_a_position_behind_those_that_were_read(
    stores: list[PostgresStore], postgres_module_url: str
) -> None:
    reader = Reader(stores[0])
    with psycopg.connect(postgres_module_url) as late:
        with stores[0].join(late) as tx:
            tx.events.append_events([new_draft("late", "default", "t", None, "k", 1)])
        stores[0].transact(
            lambda tx: tx.events.append_events([new_draft("early", "default", "t", None, "k", 1)])
        )
        stores[1].transact(lambda tx: tx.events.stamp_events(100))
        reader.read()
        assert [event.id for event in reader.got] == ["early"]
    stores[0].transact(lambda tx: tx.events.stamp_events(100))
    reader.read()
    assert [event.id for event in reader.got] == ["early", "late"]


def test_of_two_sequencers_one_waits_for_nobody(stores: list[PostgresStore]) -> None:
    one, other = stores

    def work(tx: Tx) -> int | None:
        tx.events.stamp_events(100)
        return other.transact(lambda inner: inner.events.stamp_events(100))

    assert one.transact(work) is None
    assert other.transact(lambda tx: tx.events.stamp_events(100)) is not None


def test_what_was_written_after_a_commit_comes_after_it(stores: list[PostgresStore]) -> None:
    """By causality: whoever saw the first before he wrote the second finds them in that order."""
    reader = Reader(stores[0])
    ids = []
    for n in range(10):
        ids.append(new_id())
        stores[n % 2].transact(
            lambda tx: tx.events.append_events([new_draft(ids[-1], "default", "t", None, "k", 1)])
        )
        if n % 3 == 0:
            stores[0].transact(lambda tx: tx.events.stamp_events(2))
    stores[0].transact(lambda tx: tx.events.stamp_events(100))
    reader.read()
    assert [event.id for event in reader.got] == ids
