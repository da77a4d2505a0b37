"""Runs that were claimed ahead: begun when there is a place, in order, and never too late."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.clock import utc_now
from duebook.engine.keeper import Keeper
from duebook.engine.slots import MARK_AFTER, STALE
from tests.support.builders import get_run, lose
from tests.support.slots import PLACES, Place, slow_books
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook import Context


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


class Blocked:
    """Tasks that hold every place, in threads, until they are let go."""

    def __init__(self, place: Place) -> None:
        self._begun, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self.claims = place.begin(self._holder(), PLACES)
        for _ in self.claims:
            assert self._begun.acquire(timeout=PATIENCE)

    def _holder(self) -> Callable[[], None]:
        def holds() -> None:
            self._begun.release()
            assert self._go.acquire(timeout=PATIENCE)

        return holds

    def let_go(self, number: int = PLACES) -> None:
        self._go.release(number)


@pytest.fixture
def blocked(place: Place) -> Iterator[Blocked]:
    made = Blocked(place)
    yield made
    made.let_go()


def kinds(ran: list[str]) -> dict[str, Callable[..., Any]]:
    def in_thread() -> None:
        ran.append("in_thread")

    async def in_loop() -> None:
        await asyncio.sleep(0)
        ran.append("in_loop")

    return {"thread": in_thread, "loop": in_loop}


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_a_buffered_run_begins_when_a_place_gets_free_and_says_so(
    place: Place, blocked: Blocked, kind: str
) -> None:
    ran: list[str] = []
    claims = place.buffer(kinds(ran)[kind], 5)
    assert place.slots.working() == {claim.token for claim in (*blocked.claims, *claims)}
    assert (place.slots.free, ran) == (0, [])
    assert get_run(place.store, claims[0].run.id).started_at is None
    let_go = utc_now()
    blocked.let_go(1)
    runs = [place.ended(claim) for claim in claims]
    assert [run.status for run in runs] == ["succeeded"] * 5
    assert all(let_go <= (run.started_at or let_go) <= (run.finished_at or let_go) for run in runs)
    assert all(run.started_at is not None for run in runs)
    assert len(ran) == 5


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_what_is_buffered_begins_at_once_where_places_are_free(place: Place, kind: str) -> None:
    ran: list[str] = []
    claims = place.buffer(kinds(ran)[kind], 7)
    assert [place.ended(claim).status for claim in claims] == ["succeeded"] * 7
    assert place.slots.free == PLACES


def test_no_more_run_at_once_than_there_are_places_whatever_is_buffered(place: Place) -> None:
    lock, at_once, most = threading.Lock(), 0, [0]
    go = threading.Event()

    def counts() -> None:
        nonlocal at_once
        with lock:
            at_once += 1
            most[0] = max(most[0], at_once)
            if at_once == PLACES:
                go.set()
        assert go.wait(PATIENCE)
        with lock:
            at_once -= 1

    claims = place.buffer(counts, 20)
    assert [place.ended(claim).status for claim in claims] == ["succeeded"] * 20
    assert most == [PLACES]


def test_of_buffered_runs_the_higher_priority_begins_first(place: Place, blocked: Blocked) -> None:
    ran: list[str] = []

    def low() -> None:
        ran.append("low")

    def high() -> None:
        ran.append("high")

    claims = [*place.buffer(low, 2), *place.buffer(high, 2, priority=5)]
    blocked.let_go(1)
    for claim in claims:
        place.ended(claim)
    assert ran == ["high", "high", "low", "low"]


def test_a_buffered_run_that_is_cancelled_ends_without_being_begun(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    first, second = place.buffer(kinds(ran)["thread"], 2)
    place.slots.stop(first.token, "cancelled")
    run = place.ended(first)
    assert (run.status, run.reason, run.started_at) == ("cancelled", "cancelled", None)
    blocked.let_go(1)
    assert place.ended(second).status == "succeeded"
    assert len(ran) == 1


def test_nothing_that_is_buffered_begins_after_the_lease_is_over(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    claims = place.buffer(kinds(ran)["thread"], 3)
    place.holds_lease = False
    blocked.let_go()
    runs = [place.ended(claim) for claim in claims]
    assert ([run.status for run in runs], ran) == (["queued"] * 3, [])
    assert place.slots.wait_idle(PATIENCE)


def test_what_a_lost_node_had_buffered_is_left_to_those_who_took_it_over(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    (claim,) = place.buffer(kinds(ran)["thread"])
    lose(place.store, "node-1")
    place.slots.stop_all("lost")
    blocked.let_go()
    run = place.ended(claim)
    assert (run.status, run.losses, run.attempt, ran) == ("queued", 0, 1, [])


def test_a_node_that_stops_hands_back_what_it_has_buffered_and_ends_what_it_has_begun(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    claims = place.buffer(kinds(ran)["thread"], 3)
    place.slots.hand_back_buffered()
    for claim in claims:
        run = place.ended(claim)
        assert (run.status, run.ready_at, run.losses) == ("queued", claim.run.ready_at, 0)
    blocked.let_go()
    assert [place.ended(claim).status for claim in blocked.claims] == ["succeeded"] * PLACES
    assert ran == []


@pytest.mark.usefixtures("blocked")
def test_what_waits_for_too_long_in_the_buffer_is_handed_back(place: Place) -> None:
    """Its node has become slower; another one may have a place."""
    ran: list[str] = []
    claims = place.buffer(kinds(ran)["thread"], 2)
    place.advance(STALE / 2)
    assert {claim.token for claim in claims} < place.slots.working()
    place.advance(STALE)
    assert [place.ended(claim).status for claim in claims] == ["queued"] * 2
    assert place.slots.room() == (0, 0)
    assert ran == []


def test_the_timeout_of_a_buffered_run_counts_from_its_true_beginning(
    place: Place, blocked: Blocked
) -> None:
    begun = threading.Event()

    def looks(ctx: Context) -> None:
        begun.set()
        while not ctx.cancelled:
            begun.wait(0.001)

    (claim,) = place.buffer(looks, timeout="10s")
    place.now += 9  # nobody looks after it meanwhile
    blocked.let_go()
    assert begun.wait(PATIENCE)
    place.advance(9)
    assert claim.token in place.slots.working()
    place.advance(2)
    run = place.ended(claim)
    assert (run.status, run.reason) == ("failed", "timeout")


def test_the_books_are_told_that_a_buffered_run_has_begun_which_goes_on(
    place: Place, blocked: Blocked
) -> None:
    begun, go = threading.Event(), threading.Event()

    def goes_on() -> None:
        begun.set()
        assert go.wait(PATIENCE)

    (claim,) = place.buffer(goes_on)
    blocked.let_go()
    assert begun.wait(PATIENCE)
    place.advance(MARK_AFTER / 2)
    assert place.slots._unmarked
    place.advance(MARK_AFTER)
    marked = eventually(lambda: get_run(place.store, claim.run.id).started_at)
    go.set()
    run = place.ended(claim)
    assert (run.status, run.started_at) == ("succeeded", marked)


def test_a_buffered_run_that_expires_before_it_begins_ends_as_expired(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    (claim,) = place.buffer(kinds(ran)["thread"])
    past = utc_now() - timedelta(seconds=1)
    expired = claim._replace(run=claim.run._replace(expires_at=past))
    place.slots._buffer.drop(claim.token)
    place.slots.begin([expired])
    blocked.let_go()
    run = place.ended(claim)
    assert (run.status, run.reason, run.started_at, ran) == ("cancelled", "expired", None, [])


def test_a_buffered_run_that_cannot_be_begun_here_is_left_to_others_for_a_while(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> Any:
        raise OSError("out of descriptors")

    monkeypatch.setattr(place.performer, "new_stop", fails)
    (claim,) = place.buffer(kinds([])["thread"])
    run = place.ended(claim)
    assert (run.status, run.started_at) == ("queued", None)
    assert run.ready_at > claim.run.ready_at, "it is not claimed again at once, over and over"


def test_a_buffered_run_is_no_claim_that_got_lost(place: Place, blocked: Blocked) -> None:
    """Rule 10: the keeper compares what the books say with what is at work here."""
    ran: list[str] = []
    (claim,) = place.buffer(kinds(ran)["thread"])
    lease = timedelta(hours=1)
    keeper = Keeper(place.store, "node-1", lease, place.slots, lambda *_: None, lambda: 0.0)
    keeper.renew()
    assert get_run(place.store, claim.run.id).status == "running"
    blocked.let_go()
    assert place.ended(claim).attempt == 1


def test_a_request_to_cancel_reaches_a_buffered_run_through_the_keeper(
    place: Place, blocked: Blocked
) -> None:
    ran: list[str] = []
    (claim,) = place.buffer(kinds(ran)["thread"])
    lease = timedelta(hours=1)
    keeper = Keeper(place.store, "node-1", lease, place.slots, lambda *_: None, lambda: 0.0)
    place.store.transact(lambda tx: tx.runs.cancel(claim.run.id, "cancelled"))
    keeper.obey()
    assert place.ended(claim).status == "cancelled"
    blocked.let_go()
    assert ran == []


def test_a_place_that_gets_free_rings_once_and_only_when_work_waits(place: Place) -> None:
    def quick() -> None: ...

    with slow_books(place):
        place.slots.work_waits = False
        place.begin(quick, PLACES)
        eventually(lambda: place.slots.free == PLACES)
        assert place.rings == 0
    eventually(lambda: place.slots.wait_idle(0))
    assert place.rings == 1, "a settle rings in any case: limits may allow more"


@pytest.mark.parametrize(("overlap", "rings"), [("allow", 0), ("skip", 1)])
def test_where_the_store_tells_of_work_only_the_end_of_a_counted_run_rings(
    place: Place, overlap: str, rings: int
) -> None:
    """What waits for it may have shown on the books after the settle looked, and before it was
    committed."""

    def quick() -> None: ...

    place.slots._is_told = True
    place.slots.work_waits = False
    place.begin(quick, overlap=overlap)
    eventually(lambda: place.slots.wait_idle(0))
    place.slots.close()
    assert place.rings == rings


def test_quick_runs_make_room_for_a_buffer(place: Place) -> None:
    def quick() -> None:
        place.now += 0.001

    assert place.slots.room() == (PLACES, 0)
    for claim in place.begin(quick, PLACES):
        place.ended(claim)
    free, ahead = place.slots.room()
    assert free == PLACES
    assert 40 <= ahead <= 200


@pytest.mark.usefixtures("blocked")
def test_slots_that_are_closed_hand_back_what_is_buffered(place: Place) -> None:
    ran: list[str] = []
    (claim,) = place.buffer(kinds(ran)["thread"])
    place.slots._written_off.add(claim.token)  # so that it does not wait for the threads
    place.slots.close()
    assert get_run(place.store, claim.run.id).status == "queued"
