"""How a ticker borrows the free slots of its node: from when until when, and when it may not."""

from __future__ import annotations

from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from duebook.engine.places import Room
from duebook.engine.starting import Starter
from duebook.errors import Unavailable
from duebook.model.serving import ALL
from duebook.store.values import FreeWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.engine.starting import Starting
    from duebook.model.run import Claim

CLAIM = cast("Claim", SimpleNamespace())


class Node:
    """Stands for the slots, the dispatcher and the keeper of a node."""

    def __init__(self) -> None:
        self.claiming = Lock()
        self.work_waits = False
        self.caught_up = True
        self.holds_lease = True
        self.doubts = 0
        self.begun: list[Claim] = []
        self.counted: list[Claim] = []

    def room(self) -> Room:
        return Room(3, 5)

    def worker(self, free: int) -> FreeWorker:
        assert self.claiming.locked(), "or others would take the same slots"
        return FreeWorker("node-1", free, ("default",), (), ALL)

    def begin(self, claims: list[Claim]) -> None:
        assert self.claiming.locked(), "or the keeper would take them for lost"
        self.begun += claims

    def took(self, claims: Sequence[Claim]) -> None:
        self.counted += claims

    def _doubt(self) -> None:
        self.doubts += 1

    def attempt(self) -> Starting:
        own: Any = self
        return Starter(own, own, lambda: self.holds_lease, self._doubt).attempt()


@pytest.fixture
def node() -> Node:
    return Node()


def test_nobody_claims_from_when_slots_are_counted_until_runs_are_in_them(node: Node) -> None:
    with node.attempt() as starting:
        assert not node.claiming.locked(), "a tick that begins nothing is in nobody's way"
        worker = starting.worker()
        assert worker is not None
        assert worker.free == 3
        assert starting.worker() == worker, "a transaction may be tried again"
        starting.begin([CLAIM])
    assert not node.claiming.locked()
    assert node.begun == node.counted == [CLAIM]
    assert node.doubts == 0


@pytest.mark.parametrize("why", ["runs wait", "no lease", "somebody claims"])
def test_nothing_begins_out_of_turn(node: Node, why: str) -> None:
    node.caught_up = why != "runs wait"
    node.holds_lease = why != "no lease"
    if why == "somebody claims":
        node.claiming.acquire()
    with node.attempt() as starting:
        assert starting.worker() is None
    assert node.claiming.locked() == (why == "somebody claims")


def test_when_it_is_unknown_whether_runs_have_begun_the_keeper_looks(node: Node) -> None:
    def fail(asks: bool) -> None:
        with node.attempt() as starting:
            assert not asks or starting.worker()
            raise Unavailable("nobody knows whether it was kept")

    with pytest.raises(Unavailable):
        fail(asks=True)
    assert not node.claiming.locked()
    assert node.doubts == 1
    with pytest.raises(Unavailable):
        fail(asks=False)
    assert node.doubts == 1, "nothing was to begin"


def test_a_tick_that_has_too_much_to_do_lets_others_claim(node: Node) -> None:
    with node.attempt() as starting:
        assert starting.worker()
        starting.give_up()
        assert not node.claiming.locked()
    assert node.doubts == 0
