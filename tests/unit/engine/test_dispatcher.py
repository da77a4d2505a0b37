"""How free slots are shared out between queues and namespaces, and how often work is looked for."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.dispatcher import GOOD_FOR, HELD_BY_OTHERS, Dispatcher, shares
from duebook.store.values import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.engine.slots import Places
    from duebook.model.run import Claim
    from duebook.store.base import Store

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
CLAIM = SimpleNamespace(run=SimpleNamespace(attempt=2, priority=0, ready_at=NOW))

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

    def look_for_work(self, queues: Sequence[str], tasks: Sequence[str], *_: object) -> Work:
        assert (list(queues), list(tasks)) == (["default"], [])
        self.looks += 1
        return Work((("default", "default"),) if self.ready else (), None, NOW)

    def transact(self, work: Callable[[Any], Any]) -> Any:
        return work(SimpleNamespace(claims=self, now=self.now))

    def claim(self, _session_id: str, _queue: str, limit: int, *_: object) -> list[Any]:
        number = 0 if self.held else min(limit, self.ready)
        self.ready -= number
        return [CLAIM] * number


class Room:
    """Stands for slots of which some are free."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.claiming = Lock()

    def begin(self, claims: list[Claim]) -> None:
        self.free -= len(claims)


class Watched:
    """A dispatcher among stand-ins, with a clock that stands still."""

    def __init__(self, ready: int, free: int) -> None:
        self.queue, self.room, self.seconds = Queue(ready), Room(free), 0.0
        self._dispatcher = Dispatcher(
            cast("Store", self.queue),
            cast("Places", self.room),
            "me",
            ("default",),
            monotonic=lambda: self.seconds,
        )

    def step(self, free: int) -> datetime | None:
        self.room.free = free
        return self._dispatcher.step()


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
