"""The slots with tasks: threads and the event loop, timeouts, cancellation, what is written off."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.engine.keeper import Keeper
from duebook.model.run import overlapped
from duebook.store.values import START
from tests.support.builders import add_run, add_schedule, begin, get_run, lose
from tests.support.flow_builders import put_flow, settle, start
from tests.support.slots import GRACE, Place, slow_books
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from duebook import Context
    from duebook.model.run import Claim, Token

PAUSE = threading.Event()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def new_threads(before: set[threading.Thread]) -> list[str]:
    """Which of ours began since; those of other tests may still be ending."""
    begun = (thread.name for thread in set(threading.enumerate()) - before)
    return [name for name in begun if name.startswith(("duebook-slot", "duebook-loop"))]


def test_sync_and_async_tasks_succeed_with_their_output(place: Place) -> None:
    def sync() -> str:
        return threading.current_thread().name

    async def waits() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    (first,) = place.begin(sync)
    (second,) = place.begin(waits)
    assert place.ended(first).output.startswith("duebook-slot")
    assert place.ended(second).output == "duebook-loop"
    assert place.slots.free == 3


def test_async_runs_share_one_loop_and_need_no_threads(place: Place) -> None:
    go, loops_of = asyncio.Event(), set[asyncio.AbstractEventLoop]()

    async def waits() -> None:
        loops_of.add(asyncio.get_running_loop())
        await go.wait()

    before = set(threading.enumerate())
    claims = place.begin(waits, 3)
    eventually(lambda: loops_of)
    assert place.slots.free == 0
    assert new_threads(before) == ["duebook-loop"]
    (loop,) = loops_of
    loop.call_soon_threadsafe(go.set)
    assert [place.ended(claim).status for claim in claims] == ["succeeded"] * 3
    assert loops_of == {loop}


def test_an_async_task_feels_its_cancellation(place: Place) -> None:
    felt = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            felt.set()

    (claim,) = place.begin(waits)
    place.slots.stop(claim.token, "cancelled")
    run = place.ended(claim)
    assert (run.status, run.reason) == ("cancelled", "cancelled")
    assert felt.is_set()


def test_a_sync_task_sees_its_cancellation(place: Place) -> None:
    def looks(ctx: Context) -> None:
        while not ctx.cancelled:
            PAUSE.wait(0.001)

    (claim,) = place.begin(looks)
    place.slots.stop(claim.token, "cancelled")
    run = place.ended(claim)
    assert (run.status, run.reason) == ("cancelled", "cancelled")


def test_a_run_that_is_cancelled_before_it_begins_feels_it_as_well(place: Place) -> None:
    block = threading.Event()

    async def blocks() -> None:
        block.wait(PATIENCE)

    async def waits() -> None:
        await asyncio.sleep(1_000)

    (first,) = place.begin(blocks)
    (second,) = place.begin(waits)
    place.slots.stop(second.token, "cancelled")
    block.set()
    assert place.ended(second).status == "cancelled"
    assert place.ended(first).status == "succeeded"


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_a_task_whose_time_is_over_fails(place: Place, kind: str) -> None:
    def looks(ctx: Context) -> None:
        while not ctx.cancelled:
            PAUSE.wait(0.001)

    async def waits() -> None:
        await asyncio.sleep(1_000)

    (claim,) = place.begin(looks if kind == "thread" else waits, timeout="10s")
    place.advance(9)
    assert claim.token in place.slots.working()
    place.advance(2)
    run = place.ended(claim)
    assert (run.status, run.reason) == ("failed", "timeout")
    assert run.error == "it took longer than its timeout"
    assert place.slots.free == 3


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_a_task_that_does_not_end_is_written_off_until_it_does(place: Place, kind: str) -> None:
    begun, go = threading.Event(), threading.Event()

    def deaf() -> None:
        begun.set()
        go.wait(PATIENCE)

    async def blocking() -> None:
        deaf()

    (claim,) = place.begin(deaf if kind == "thread" else blocking, timeout="10s")
    assert begun.wait(PATIENCE)
    place.advance(11)
    assert claim.token in place.slots.working()
    place.advance(GRACE)
    run = place.ended(claim)
    assert (run.status, run.reason) == ("failed", "timeout")
    assert run.error is not None
    assert "did not stop when asked to" in run.error
    assert place.slots.free == 2
    go.set()
    eventually(lambda: place.slots.free == 3)
    assert get_run(place.store, claim.run.id) == run


def test_a_run_that_is_written_off_before_its_thread_comes_to_it_never_begins(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []

    def work() -> None:
        ran.append(True)

    with monkeypatch.context() as patched:
        patched.setattr(place.slots, "_add_thread", lambda: None)
        (claim,) = place.begin(work, timeout="10s")
    place.advance(11)
    place.advance(GRACE)
    assert place.ended(claim).reason == "timeout"
    assert place.slots.free == 2
    place.slots._add_thread()
    eventually(lambda: place.slots.free == 3)
    assert ran == []


@pytest.mark.parametrize("deaf", [False, True])
def test_a_task_that_goes_on_after_its_run_was_taken_over_says_so_on_the_books(
    place: Place, deaf: bool
) -> None:
    """One that hears that its node was lost, and one that has to be written off first."""
    go = threading.Event()

    def works(ctx: Context) -> None:
        while not (go.is_set() or (ctx.cancelled and not deaf)):
            PAUSE.wait(0.01)

    def until() -> datetime | None:
        (attempt, *_) = place.store.read(lambda tx: tx.runs.list_attempts(claim.run.id))
        return attempt.went_on_until

    (claim,) = place.begin(works)
    lose(place.store, "node-1")
    again = begin(place.store, "node-2")
    assert place.store.transact(lambda tx: tx.claims.claim(again, "default", 1, ["works"]))
    place.slots.stop_all("lost")
    if deaf:
        place.advance(GRACE)
        first = eventually(until)
        go.set()
        eventually(lambda: until() != first)
        eventually(lambda: place.slots.free == 3)
    run = place.ended(claim)
    (attempt,) = place.store.read(lambda tx: tx.runs.list_attempts(run.id))
    assert (run.status, run.attempt, attempt.outcome) == ("running", 2, "lost")
    assert overlapped(attempt, [attempt], run) == [2]


def test_a_node_whose_slots_are_all_written_off_is_worn_out(place: Place) -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    def deaf() -> None:
        begun.release()
        go.wait(PATIENCE)

    claims = place.begin(deaf, 3)
    for _ in claims:
        assert begun.acquire(timeout=PATIENCE)
    place.slots.stop_all("shutdown")
    place.advance(GRACE)
    assert [place.ended(claim).status for claim in claims] == ["queued"] * 3  # handed back
    assert place.slots.is_worn_out
    assert place.slots.wait_idle(0)
    go.set()


def test_a_request_that_comes_after_the_end_costs_no_slot(place: Place) -> None:
    settling = threading.Event()
    transact = place.store.transact

    def slow(work: Any) -> Any:
        settling.wait(PATIENCE)
        return transact(work)

    def quick() -> None: ...

    (claim,) = place.begin(quick)
    place.ended(claim)
    vars(place.store)["transact"] = transact
    (claim,) = _begin_again(place, "quick", slow)
    eventually(lambda: place.slots._working[claim.token][1] is None)
    place.slots.stop(claim.token, "cancelled")
    place.advance(GRACE + 1)
    settling.set()
    assert place.ended(claim).status == "succeeded"
    assert place.slots.free == 3


def _begin_again(place: Place, name: str, transact: Any) -> list[Claim]:
    """Another run of a task, on books that settle slowly."""
    schedule = place.store.read(lambda tx: tx.schedules.find_schedule("default", name))
    add_run(place.store, schedule)
    claims = place.store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, [name]))
    vars(place.store)["transact"] = transact
    place.slots.begin(claims)
    return claims


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_a_place_is_free_as_soon_as_its_function_has_ended(place: Place, kind: str) -> None:
    def quick() -> None: ...

    async def at_once() -> None: ...

    with slow_books(place):
        place.slots.work_waits = True
        claims = place.begin(quick if kind == "thread" else at_once, 3)
        eventually(lambda: place.slots.free == 3)
        assert place.rings
        assert place.slots.working() == {claim.token for claim in claims}
        assert not place.slots.wait_idle(0)
        assert get_run(place.store, claims[0].run.id).status == "running"
    assert [place.ended(claim).status for claim in claims] == ["succeeded"] * 3
    assert place.slots.wait_idle(0)


def test_nothing_more_is_claimed_while_too_many_ends_wait_for_the_books(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick() -> None: ...

    monkeypatch.setattr("duebook.engine.slots.MOST_UNSETTLED", 4)
    with slow_books(place):
        place.begin(quick, 3)
        eventually(lambda: place.slots.free == 3)
        claims = _begin_again(place, "quick", place.store.transact)
        eventually(lambda: place.slots.free == 0)
    place.ended(claims[0])
    assert place.slots.free == 3


def test_an_end_that_waits_for_the_books_is_no_claim_that_got_lost(place: Place) -> None:
    """Rule 10: the keeper compares what the books say with what is at work here."""

    def quick() -> None: ...

    lease = timedelta(hours=1)
    keeper = Keeper(place.store, "node-1", lease, place.slots, lambda *_: None, lambda: 0.0)
    with slow_books(place):
        (claim,) = place.begin(quick)
        eventually(lambda: place.slots.free == 3)
        keeper.renew()
        assert get_run(place.store, claim.run.id).status == "running"
    run = place.ended(claim)
    assert (run.status, run.attempt) == ("succeeded", 1)


def test_what_tasks_log_and_tell_is_on_the_books(place: Place) -> None:
    go = threading.Event()

    def tells(ctx: Context) -> None:
        ctx.log.info("loading")
        ctx.progress(0.4, "loading")
        go.wait(PATIENCE)

    async def tells_too(ctx: Context) -> None:
        ctx.log.info("loading")
        ctx.progress(0.4, "loading")
        await asyncio.to_thread(go.wait, PATIENCE)

    claims = [*place.begin(tells), *place.begin(tells_too)]

    def told(token: Token) -> tuple[float | None, str | None]:
        place.performer.flush()
        run = get_run(place.store, token.run_id)
        return run.progress, run.progress_text

    for claim in claims:
        eventually(lambda token=claim.token: told(token) == (0.4, "loading"))  # type: ignore[misc]
    go.set()
    for claim in claims:
        assert place.ended(claim).status == "succeeded"
        lines = place.store.read(lambda tx, id_=claim.run.id: tx.runs.list_log(id_, START, 10))  # type: ignore[misc]
        assert [line.text for _, line in lines] == ["loading"]


def test_a_retry_follows_the_exception_that_it_names(place: Place) -> None:
    def resets() -> None:
        raise ConnectionResetError("gone")

    def gives_up() -> None:
        raise ValueError("wrong")

    async def returns_too_much() -> object:
        return object()

    retry = {"attempts": 3, "on": ["ConnectionError"]}
    (first,) = place.begin(resets, retry=retry)
    (second,) = place.begin(gives_up, retry=retry)
    (third,) = place.begin(returns_too_much, retry=3)
    assert place.ended(first).status == "queued"
    assert place.ended(second).status == "failed"
    assert place.ended(third).reason == "output"


STEPS = """
name: chain
params: {WHO: world}
steps:
  - {name: warm, command: "true"}
  - [{name: good, task: greet, payload: {who: "{{ params.WHO }}"}},
     {name: bad, task: greet, payload: {who: "{{ steps.warm.exit_code }}"}}]
"""


def test_async_steps_begin_together_and_one_without_its_values_fails_alone(place: Place) -> None:
    async def greet(who: str) -> str:
        return f"hello, {who}, in {threading.current_thread().name}"

    place.tasks.add(greet, "greet")
    put_flow(place.store, STEPS)
    run_id = start(place.store)
    advancer = Advancer(place.store, place.flow_cache)
    advancer.step()
    (warm,) = place.store.transact(lambda tx: tx.claims.claim("node-1", "default", 9, ["greet"]))
    settle(place.store, warm.token)
    advancer.step()
    claims = place.store.transact(lambda tx: tx.claims.claim("node-1", "default", 9, ["greet"]))
    place.slots.begin(claims)
    ended = {claim.run.step: place.ended(claim) for claim in claims}
    assert ended["good"].output == "hello, world, in duebook-loop"
    assert (ended["bad"].status, ended["bad"].reason) == ("failed", "template")
    advancer.step()
    assert get_run(place.store, run_id).status == "failed"


def test_a_step_gets_its_values_though_a_run_of_the_same_task_begins_beside_it(
    place: Place,
) -> None:
    seen = []

    async def greet(name: str = "Ann") -> None:
        seen.append(name)

    place.tasks.add(greet)
    Book(place.store).enqueue("greet")
    steps = "[{name: hi, task: greet, payload: {name: '${WHO}'}}]"
    put_flow(place.store, f"name: chain\nparams: [WHO: Bob]\nsteps: {steps}")
    start(place.store)
    Advancer(place.store, place.flow_cache).step()
    claims = place.store.transact(lambda tx: tx.claims.claim("node-1", "default", 9, ["greet"]))
    assert [claim.step_context is None for claim in claims] == [True, False]
    place.slots.begin(claims)
    assert {place.ended(one).status for one in claims} == {"succeeded"}
    assert sorted(seen) == ["Ann", "Bob"]


# -- tasks that are only for some namespaces


async def async_digest() -> str:
    raise AssertionError("it must not be called")


def thread_digest() -> str:
    raise AssertionError("it must not be called")


@pytest.mark.parametrize("function", [thread_digest, async_digest])
def test_a_run_of_a_namespace_that_may_not_call_the_task_fails_and_says_so(
    place: Place, function: Callable[..., Any]
) -> None:
    name = function.__name__
    place.tasks.add(function, namespaces=["shop", "mail"])
    schedule = add_schedule(place.store, name, target=name, retry={"attempts": 5})
    add_run(place.store, schedule)
    (claim,) = place.store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, [name]))
    place.slots.begin([claim])
    run = place.ended(claim)
    assert (run.status, run.reason) == ("failed", "fenced")
    assert run.error == (
        f'task "{name}" is only for namespaces mail, shop, not for namespace "default"; use '
        "another task, or allow the namespace in @book.task(namespaces=…)"
    )
    told = Book(place.store).runs.log(run.id)
    assert "is only for namespaces mail, shop" in str(told)
