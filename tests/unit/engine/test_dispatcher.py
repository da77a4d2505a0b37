"""How free slots are shared out between queues and namespaces, and how often work is looked for."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine import places as engine_places
from duebook.engine.dispatcher import (
    GOOD_FOR,
    HELD_BY_OTHERS,
    RESTRAINT,
    Dispatcher,
    shares,
)
from duebook.store.values import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.engine.places import Places
    from duebook.model.run import Claim
    from duebook.store.base import Store

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
CLAIM = SimpleNamespace(run=SimpleNamespace(attempt=2, priority=0, ready_at=NOW), started_at=NOW)

places = st.lists(st.tuples(st.sampled_from("abc"), st.text()), min_size=1, max_size=9, unique=True)


@given(st.integers(1, 100), places, st.integers(0, 1000))
def test_all_free_slots_are_given_and_nobody_gets_much_more_than_another(
    free: int, places: list[tuple[str, str]], turn: int
) -> None:
    given_out = dict(shares(free, places, turn))
    assert sum(given_out.values()) == free
    everyone = [given_out.get(place, 0) for place in places]
    assert max(everyone) - min(everyone) <= 1


@given(places, st.integers(0, 1000))
def test_a_single_slot_goes_round(places: list[tuple[str, str]], turn: int) -> None:
    served = Counter(place for n in range(len(places)) for place, _ in shares(1, places, turn + n))
    assert served == Counter(places)


class Queue:
    """Stands for a store in which so many runs of one place are ready."""

    now = NOW

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self.looks = 0
        self.held = False
        """whether somebody else is claiming what there is"""
        self.places: tuple[tuple[str, str], ...] = (("default", "default"),)
        self.limited: set[str] = set()
        """queues whose next run must not be buffered"""
        self.asked: list[tuple[str, int, int]] = []

    def look_for_work(self, queues: Sequence[str], tasks: Sequence[str], *_: object) -> Work:
        assert (list(queues), list(tasks)) == (["default"], [])
        self.looks += 1
        return Work(self.places if self.ready else (), None, NOW)

    def transact(self, work: Callable[[Any], Any]) -> Any:
        return work(SimpleNamespace(claims=self, now=self.now))

    def claim_ahead(
        self, _session_id: str, queue: str, limit: int, ahead: int, *_: object
    ) -> tuple[list[Any], bool]:
        self.asked.append((queue, limit, ahead))
        stops = queue in self.limited and ahead > 0
        number = 0 if self.held else min(limit + (0 if stops else ahead), self.ready)
        self.ready -= number
        return [CLAIM] * number, stops


class Room:
    """Stands for slots of which some are free."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.ahead = 0
        self.claiming = Lock()
        self.work_waits = False

    def room(self) -> engine_places.Room:
        assert self.work_waits, "a place that gets free after this rings"
        return engine_places.Room(self.free, self.ahead)

    def begin(self, claims: list[Claim]) -> None:
        buffered = max(len(claims) - self.free, 0)
        self.free -= len(claims) - buffered
        self.ahead -= buffered


class Watched:
    """A dispatcher among stand-ins, with a clock that stands still."""

    def __init__(self, ready: int, free: int) -> None:
        self.queue, self.room, self.seconds = Queue(ready), Room(free), 0.0
        self.dispatcher = Dispatcher(
            cast("Store", self.queue),
            cast("Places", self.room),
            "me",
            ("default",),
            monotonic=lambda: self.seconds,
        )

    def step(self, free: int, ahead: int = 0) -> datetime | None:
        self.room.free, self.room.ahead = free, ahead
        return self.dispatcher.step()


def test_a_place_with_plenty_is_looked_for_only_now_and_then() -> None:
    watched = Watched(ready=100, free=10)
    for _ in range(3):
        watched.step(free=10)
    assert (watched.queue.ready, watched.queue.looks) == (70, 1)
    watched.seconds += 2 * GOOD_FOR
    watched.step(free=10)
    assert (watched.queue.ready, watched.queue.looks) == (60, 2)


def test_a_place_that_gave_less_than_was_asked_for_is_looked_at_again() -> None:
    watched = Watched(ready=15, free=10)
    watched.step(free=10)
    assert watched.step(free=10) is None
    assert (watched.queue.ready, watched.queue.looks) == (0, 2)


def test_what_others_hold_is_looked_at_again_soon_and_nobody_turns_in_circles() -> None:
    watched = Watched(ready=20, free=10)
    watched.step(free=10)
    watched.queue.held = True
    assert watched.step(free=10) == NOW + HELD_BY_OTHERS
    assert watched.queue.looks == 2


def test_an_empty_place_is_looked_at_each_time() -> None:
    watched = Watched(ready=0, free=10)
    watched.step(free=10)
    watched.queue.ready = 5
    watched.step(free=10)
    assert watched.queue.ready == 0


def test_a_place_that_gets_free_shall_ring_only_when_there_was_more_than_places() -> None:
    watched = Watched(ready=10, free=4)
    watched.step(free=4)
    assert watched.room.work_waits
    watched.step(free=20)
    assert not watched.room.work_waits


def test_it_has_caught_up_when_a_look_finds_nothing_until_there_is_no_room() -> None:
    """Without room it does not look, so nobody can tell what came meanwhile."""
    watched, found = Watched(ready=10, free=4), []
    for free in (4, 20, 0):
        watched.step(free)
        found.append(watched.dispatcher.caught_up)
    assert found == [False, True, False]


def test_what_is_claimed_ahead_is_shared_out_as_slots_are() -> None:
    watched = Watched(ready=100, free=0)
    watched.queue.places = (("a", "default"), ("b", "default"), ("c", "default"))
    watched.step(free=3, ahead=30)
    assert watched.queue.asked == [("a", 1, 10), ("b", 1, 10), ("c", 1, 10)]


def test_a_full_node_claims_ahead() -> None:
    watched = Watched(ready=100, free=0)
    watched.step(free=0, ahead=30)
    assert (watched.queue.ready, watched.room.ahead) == (70, 0)


def test_a_run_that_must_not_be_buffered_is_given_the_next_slot() -> None:
    watched = Watched(ready=100, free=0)
    watched.queue.limited = {"default"}
    watched.step(free=0, ahead=30)
    watched.step(free=0, ahead=30)
    assert watched.queue.asked == [("default", 0, 30)], "nothing more before a slot is free"
    watched.queue.limited.clear()
    watched.step(free=1, ahead=30)
    assert watched.queue.asked[1:] == [("default", 1, 30)]


def test_beside_a_queue_with_limits_nothing_is_claimed_ahead_so_that_it_gets_its_share() -> None:
    """Slots would never be free otherwise, and only they will do for its runs."""
    watched = Watched(ready=1_000, free=0)
    watched.queue.places = (("free", "default"), ("limited", "default"))
    watched.queue.limited = {"limited"}
    watched.step(free=0, ahead=30)
    watched.queue.asked.clear()
    for _ in range(10):
        watched.step(free=4, ahead=30)
    assert watched.queue.asked == [("free", 2, 0), ("limited", 2, 0)] * 10
    watched.seconds += 2 * RESTRAINT
    watched.step(free=4, ahead=30)
    assert watched.queue.asked[-1] == ("limited", 2, 15)
