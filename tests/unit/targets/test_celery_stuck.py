"""Celery calls that do not return, in the threads that make them: no other run waits for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from duebook.targets.celery_runs import HAND_BACK_WITHIN, PATIENCE, REVOKE_WITHIN
from duebook.targets.celery_states import CeleryRecord
from duebook.targets.lane import in_a_thread
from tests.support.celery_runs import FakeCelery, World
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


class StuckCelery(FakeCelery):
    """Whose broker or backend accepts a call, and answers only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck: set[str] = set()
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()

    def _reach(self, what: str) -> None:
        if what in self.stuck:
            self.entered.release()
            assert self.let_go.wait(60)
        super()._reach(what)


class StuckWorld(World):
    def __init__(self) -> None:
        super().__init__(StuckCelery(), in_a_thread)
        assert isinstance(self.celery, StuckCelery)
        self.stuck: StuckCelery = self.celery

    def enter(self, what: str) -> None:
        """Have the next call of this kind stuck."""
        self.stuck.stuck = {what}

    def until_entered(self) -> None:
        def is_entered() -> bool:
            self.step()
            return self.stuck.entered.acquire(blocking=False)

        eventually(is_entered)

    def until_sent(self, *ids: str) -> None:
        def is_sent() -> bool:
            self.step(0.2)
            return {id_ for *_, id_ in self.celery.sent} >= set(ids)

        eventually(is_sent)

    def stepped_end(self, run_id: str) -> str:
        def ended() -> object:
            self.step(0.2)
            return self.ended.get(run_id)

        eventually(ended)
        return self.ended[run_id].status


@pytest.fixture
def world() -> Iterator[StuckWorld]:
    world = StuckWorld()
    yield world
    world.stuck.let_go.set()
    world.runs.close()


def test_a_broker_that_does_not_answer_holds_up_no_run_whose_task_was_sent(
    world: StuckWorld,
) -> None:
    world.begin(run_id="done")
    world.until_sent("done-1")
    world.enter("broker")
    world.begin(run_id="late")
    world.until_entered()
    world.celery.records["done-1"] = CeleryRecord("SUCCESS", 3)
    assert world.stepped_end("done") == "succeeded"


def test_a_backend_that_does_not_answer_holds_up_no_task_that_is_to_be_sent(
    world: StuckWorld,
) -> None:
    world.enter("backend")
    world.begin(run_id="first")
    world.until_entered()
    world.begin(run_id="second")
    world.until_sent("first-1", "second-1")


@pytest.mark.parametrize(("reason", "status"), [("cancelled", "cancelled"), ("timeout", "failed")])
def test_a_run_ends_although_the_broker_does_not_answer_its_revoke(
    world: StuckWorld, reason: str, status: str
) -> None:
    world.begin()
    world.until_sent("r-1")
    world.enter("broker")
    world.stops["r"].set(reason)
    world.until_entered()
    assert not world.ended
    world.step(REVOKE_WITHIN)
    assert world.end().status == status
    assert "the broker of Celery has not answered yet" in world.reports["r"].notes
    world.stuck.let_go.set()
    eventually(lambda: world.celery.revoked == [("r-1", False)])


def test_what_is_stuck_is_given_up_and_the_next_try_is_made_in_another_thread(
    world: StuckWorld,
) -> None:
    world.enter("broker")
    world.begin()
    world.begin(run_id="s")
    world.until_entered()
    world.stuck.stuck = set()
    world.step(PATIENCE["broker"])
    assert world.runs.unreachable == "the broker of Celery has not answered for 60 s"
    world.until_sent("s-1")
    world.until_sent("r-1")
    assert "cannot know" in "".join(world.told)
    world.stuck.let_go.set()
    eventually(lambda: len(world.celery.contexts) == 3)  # the first came through, late
    sent = [id_ for *_, id_ in world.celery.sent]
    assert (sent.count("r-1"), sent.count("s-1")) == (2, 1)


def test_a_backend_that_is_stuck_is_asked_again_by_another_thread(world: StuckWorld) -> None:
    world.begin()
    world.until_sent("r-1")
    world.enter("backend")
    world.step(10)
    world.until_entered()
    world.stuck.stuck = set()
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.step(PATIENCE["backend"])
    assert world.stepped_end("r") == "succeeded"
    assert "has not answered for 30 s" in world.reports["r"].notes


def test_a_run_that_is_handed_back_waits_a_moment_for_a_task_that_is_being_sent(
    world: StuckWorld,
) -> None:
    world.enter("broker")
    world.begin()
    world.until_entered()
    world.stops["r"].set("shutdown")
    world.step()
    assert not world.ended
    world.step(HAND_BACK_WITHIN)
    assert world.end().reason == "shutdown"
    assert not world.celery.revoked
