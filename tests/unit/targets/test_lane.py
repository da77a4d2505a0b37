"""Calls that may be stuck, in a thread of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Unavailable
from duebook.targets.lane import MOST_STUCK, Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Waking:
    """A lane whose threads run only when told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wakes = 0
        self.serves: list[Callable[[], None]] = []
        self.refuses = False
        self.lane: Lane[str] = Lane(
            "far", lambda: "link", self._wake, lambda: self.now, self._begin_thread
        )

    def _wake(self) -> None:
        self.wakes += 1

    def _begin_thread(self, name: str, serve: Callable[[], None]) -> None:
        assert name == "far"
        if self.refuses:
            raise RuntimeError("can't start new thread")
        self.serves.append(serve)


def at_once() -> Lane[str]:
    return Lane("far", lambda: "link", lambda: None, lambda: 0.0, None)


def work(link: str) -> Iterator[Any]:
    yield f"{link} 1"
    yield f"{link} 2"


def failing(_: str) -> Iterator[Any]:
    yield 1
    raise Unavailable("gone")


def broken(_: str) -> Iterator[Any]:
    yield 1
    raise ValueError("boom")


def test_results_are_taken_in_order_and_then_the_lane_is_free() -> None:
    lane = at_once()
    assert lane.is_free
    lane.begin(work)
    assert lane.is_busy
    assert list(lane.take()) == ["link 1", "link 2"]
    assert lane.is_free


@pytest.mark.parametrize(("done", "told"), [(failing, "gone"), (broken, "ValueError: boom")])
def test_work_that_fails_yields_what_it_found_and_then_its_error(
    done: Callable[[str], Iterator[Any]], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    lane = at_once()
    lane.begin(done)
    results = lane.take()
    assert next(results) == 1
    with pytest.raises(Unavailable, match=told):
        next(results)
    assert lane.is_free
    assert ("the thread far continues after an error" in caplog.text) == (done is broken)


def test_a_thread_that_could_not_start_is_started_with_the_next_work() -> None:
    far = Waking()
    far.refuses = True
    with pytest.raises(RuntimeError):
        far.lane.begin(work)
    assert far.lane.is_free
    far.refuses = False
    far.lane.begin(work)
    assert len(far.serves) == 1
    assert far.lane.is_busy


def test_patience_lasts_from_the_last_progress_and_only_during_work() -> None:
    far = Waking()
    assert far.lane.waits_for(5) is None
    far.lane.begin(work)
    far.now = 4
    assert far.lane.waits_for(5) == 1
    far.now = 6
    assert far.lane.waits_for(5) == -1


def test_work_that_was_given_up_is_not_heard_of_and_others_get_another_thread() -> None:
    far = Waking()
    far.lane.begin(work)
    far.lane.give_up()
    far.serves[0]()
    assert list(far.lane.take()) == []
    far.lane.begin(work)
    assert len(far.serves) == 2


def test_no_thread_is_started_while_too_many_are_stuck() -> None:
    far = Waking()
    for _ in range(MOST_STUCK):
        assert far.lane.is_free
        far.lane.begin(work)
        far.lane.give_up()
    assert not far.lane.is_free
    far.serves[0]()
    assert far.lane.is_free
