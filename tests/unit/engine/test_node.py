"""A node begins its sessions through breaks of the connection, and all of it goes on as one."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.node import Node, NodeOptions
from duebook.errors import Conflict, Unavailable
from duebook.model.consumer import new_consumer
from duebook.model.run import Token
from duebook.store.sqlite import SqliteStore, migrate
from duebook.targets.command_setup import CommandSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook.store.values import Pulse


class Spawner:
    """One that starts nothing."""

    setup = CommandSetup({})

    def extend_lease(self, seconds: float, since: float) -> None: ...


class Store(SqliteStore):
    """Books that break off at a pulse, or at a transaction, so many times."""

    pulses_lost = 0
    commits_lost = 0

    def pulse(self, *words: Any, **options: Any) -> Pulse:
        if self.pulses_lost:
            self.pulses_lost -= 1
            raise Unavailable("it broke off")
        return super().pulse(*words, **options)

    def transact(self, work: Any) -> Any:
        done = super().transact(work)
        if self.commits_lost:
            self.commits_lost -= 1
            raise Unavailable("it is unknown whether the last change was committed")
        return done


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "book.db")) as opened:
        yield opened


class Idle:
    """A chore with nothing to do."""

    name = "idle"
    session_id: str | None = None

    def owned_by(self, session_id: str) -> None:
        self.session_id = session_id

    def start(self, ring: Callable[[], None], serve: object) -> None: ...

    def step(self) -> float:
        return 60.0

    def close(self) -> None: ...


@pytest.fixture
def node(books: Store) -> Iterator[Node]:
    options = NodeOptions(lease=timedelta(minutes=1))
    made = Node(books, Spawner(), options, chores=[Idle()])  # type: ignore[arg-type]
    made._prepare()
    yield made
    made._slots.close()


def sessions(node: Node) -> set[str | None]:
    """Under which sessions its parts work."""
    parts = (node._keeper, node._dispatcher, node._ticker, node._second_ticker)
    chores = [chore.session_id for chore, _ in node._chores if isinstance(chore, Idle)]
    return {*(part.session_id for part in parts), *chores}


@pytest.mark.parametrize("lost", ["pulses_lost", "commits_lost"])
def test_a_node_whose_first_words_get_lost_begins_all_the_same(
    node: Node, books: Store, lost: str
) -> None:
    setattr(books, lost, 1)
    assert node._begin_first_session()
    assert len(sessions(node)) == 1
    node._keep()
    assert node._keeper.pulse is not None
    assert node._keeper.pulse.alive


def test_a_node_without_its_first_session_says_that_it_is_starting(node: Node) -> None:
    assert node.trouble == "this node is starting"
    assert node._begin_first_session()
    assert node.trouble is None


def test_a_node_under_which_a_migration_was_applied_before_it_began_refuses_to_begin(
    books: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(books, Spawner())  # type: ignore[arg-type]
    ours = migrate.available()
    newer = migrate.Migration(ours[-1].number + 1, "newer", "CREATE TABLE more (id INTEGER) STRICT")
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "available", lambda: [*ours, newer])
        SqliteStore(tmp_path / "book.db").close()
    with pytest.raises(Conflict, match="supports only"):
        node.run()


def test_a_node_that_is_asked_to_stop_waits_for_no_books(node: Node, books: Store) -> None:
    books.commits_lost = 1_000
    node.stop()
    assert not node._begin_first_session()


def test_all_of_a_node_goes_on_under_its_new_session_though_the_next_pulse_is_lost(
    node: Node, books: Store
) -> None:
    node._begin_session()
    (former,) = sessions(node)
    node._keeper.lost = True
    books.pulses_lost = 1
    node._keep()
    assert former not in sessions(node)
    assert len(sessions(node)) == 1, "nobody claims or plans under a session that is over"
    node._keep()
    assert node._keeper.pulse is not None
    assert node._keeper.pulse.alive


def test_a_node_that_heard_nothing_of_a_sink_learns_of_it_from_its_pulse(
    node: Node, books: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    node._begin_first_session()
    node._publish()
    rung: list[bool] = []
    monkeypatch.setattr(node._alarms.relay, "ring", lambda: rung.append(True))

    def look() -> int:
        node._keeper.hurry()
        node._keep()
        return len(rung)

    assert look() == 0
    wanted = new_consumer("default", "bus", "kafka", None, 4, 3, {"servers": "127.0.0.1:1"})
    books.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))
    assert look() == 1
    monkeypatch.setattr(node._relay, "_begin", lambda *_: None)
    node._publish()
    assert look() == 1, "the relay knows by now"


class Stop:
    """How a run is asked to end."""

    reason: str | None = None

    def set(self, reason: str) -> None:
        self.reason = reason


def test_a_node_begins_no_other_session_while_a_claim_may_bring_work_to_the_lost_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That work would go on while others take it over."""
    monkeypatch.setattr(node._performer, "is_cooperative", lambda _: False)
    node._begin_session()
    (former,) = sessions(node)
    node._keeper.lost = True
    token, stop = Token("run", 1, str(former)), Stop()
    with node._slots.claiming:
        thread = threading.Thread(target=node._keep)
        thread.start()
        node._slots._working[token] = (object(), stop)  # type: ignore[assignment]
    thread.join()
    assert sessions(node) == {former}
    node._keep()
    assert stop.reason == "lost"
    assert sessions(node) == {former}
    node._slots._working.clear()
    node._keep()
    assert former not in sessions(node)
