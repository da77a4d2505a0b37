"""Runs with a Celery target: what one thread does for all of them, step by step."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Unavailable
from duebook.model.run import Outcome
from duebook.targets.celery_runs import ASK_AFTER, MOST_LOST
from duebook.targets.celery_states import CeleryRecord
from tests.support.celery_runs import ADD, World
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.runs.close()


def test_a_task_is_sent_with_an_id_of_run_and_attempt_and_settles_its_run(world: World) -> None:
    world.begin()
    world.step()
    assert world.celery.sent == [("proj.add", (1, 2), {"x": 5}, "r-1")]
    assert not world.ended
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.step(1)
    assert world.end() == Outcome("succeeded", output="3")
    assert "sent proj.add to Celery as r-1" in world.reports["r"].notes


def test_kwargs_of_the_target_are_sent_in_place_of_the_payload(world: World) -> None:
    world.begin(ADD | {"kwargs": {}})
    world.step()
    assert world.celery.sent == [("proj.add", (1, 2), {}, "r-1")]


def test_the_trace_context_of_the_attempt_goes_with_the_task(world: World) -> None:
    header = f"00-{7:032x}-{9:016x}-01"
    world.begin(traceparent=header)
    world.step()
    assert world.celery.contexts == [header]


def test_a_thousand_runs_are_looked_at_together_and_not_too_often(world: World) -> None:
    for number in range(1_000):
        world.begin(run_id=f"r{number}")
    while world.step() == 0:
        pass
    assert len(world.celery.sent) == 1_000
    world.celery.looks.clear()
    assert world.step(0.2) == pytest.approx(0.2)
    world.step()
    assert world.celery.looks == [1_000]
    world.step(0.2)
    assert world.celery.looks == [1_000, 1_000]


def test_nothing_is_foreseen_once_all_have_ended(world: World) -> None:
    world.begin()
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    assert world.step() is None


def test_a_retry_sends_a_new_task(world: World) -> None:
    world.began = 2
    world.begin(attempt=2)
    world.step()
    assert world.celery.sent[0][3] == "r-2"
    assert not world.told


def test_a_takeover_waits_for_the_task_of_the_attempt_before(world: World) -> None:
    world.celery.records["r-1"] = CeleryRecord("STARTED")
    world.begin(attempt=3)
    world.step()
    assert not world.celery.sent
    world.celery.records["r-1"] = CeleryRecord("FAILURE", {"exc_type": "OSError"}, "Traceback")
    world.step(1)
    assert world.end().error == "OSError"
    assert ("stderr", "Traceback") in world.reports["r"].lines
    assert world.told == ["taken over: waiting for Celery task r-1, which was sent before"]


def test_a_takeover_settles_by_a_task_that_has_ended(world: World) -> None:
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.begin(attempt=2)
    world.step()
    assert world.end().output == "3"
    assert not world.celery.sent
    assert "had already ended" in world.told[0]


REVOKED = CeleryRecord("REVOKED", {"exc_type": "TaskRevokedError", "exc_message": ["revoked"]})
EXPIRED = CeleryRecord("REVOKED", {"exc_type": "TaskRevokedError", "exc_message": ["expired"]})


@pytest.mark.parametrize(
    ("record", "timeout", "attempt", "ended"),
    [
        (REVOKED, timedelta(seconds=5), 2, ("failed", "timeout")),
        (REVOKED, None, 2, ("cancelled", "revoked")),  # only a person can have done it
        (REVOKED, timedelta(seconds=5), 1, ("cancelled", "revoked")),
        (EXPIRED, timedelta(seconds=5), 2, ("cancelled", "revoked")),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_task_that_a_lost_node_revoked_because_of_the_timeout_is_not_cancelled(
    world: World,
    record: CeleryRecord,
    timeout: timedelta | None,
    attempt: int,
    ended: tuple[str, str],
    later: bool,
) -> None:
    """A worker says so when it comes to the task, which may be long after the takeover."""
    world.celery.records["r-1"] = CeleryRecord(is_marked=True) if later else record
    world.begin(attempt=attempt, timeout=timeout)
    world.step()
    world.celery.records["r-1"] = record
    world.step(1)
    outcome = world.end()
    assert (outcome.status, outcome.reason) == ended


def test_a_takeover_sends_what_nothing_is_known_of_under_the_same_id_and_says_so(
    world: World,
) -> None:
    world.begin(attempt=2)
    world.step()
    world.step()
    assert [id_ for *_, id_ in world.celery.sent] == ["r-1"]
    assert "cannot know" in world.told[0]
    assert "cannot know" in world.reports["r"].notes


def test_a_takeover_asks_again_as_long_as_the_backend_is_out_of_reach(world: World) -> None:
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.celery.down = {"backend"}
    world.begin(attempt=2)
    for _ in range(5):
        world.step(10)
    assert not world.celery.sent
    assert not world.ended
    assert world.reports["r"].notes.count("the backend cannot be reached; trying again") == 1
    world.celery.down = set()
    world.step(10)
    assert world.end().output == "3"


def test_sending_is_tried_again_until_the_broker_is_back(world: World) -> None:
    world.celery.down = {"broker"}
    world.begin()
    world.step()
    world.step(10)
    assert not world.celery.sent
    assert not world.ended
    world.celery.down = set()
    world.step(10)
    assert len(world.celery.sent) == 1
    assert world.reports["r"].notes.count("the broker cannot be reached; trying again") == 1


def test_nothing_is_sent_while_the_books_cannot_say_what_was(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.books_down = True
    world.begin(attempt=2)
    world.step()
    assert not world.celery.sent
    world.books_down = False
    world.step(10)
    assert caplog.messages[-1] == "the database can be reached again"
    world.step(10)
    assert len(world.celery.sent) == 1


def test_a_task_that_celery_does_not_take_fails_its_run(world: World) -> None:
    world.celery.refuses = "TypeError: add() takes 2 arguments"
    world.begin()
    world.step()
    outcome = world.end()
    assert (outcome.status, outcome.reason) == ("failed", "not_sent")
    assert outcome.error == "Celery did not take the task: TypeError: add() takes 2 arguments"


def test_a_run_whose_values_are_wrong_sends_nothing(world: World) -> None:
    world.begin(ADD | {"args": ["{{ payload.no }}"]})
    world.step()
    assert world.end().reason == "template"
    assert not world.celery.sent


@pytest.mark.parametrize("terminate", [False, True])
def test_a_cancelled_run_has_its_task_revoked(world: World, terminate: bool) -> None:
    world.begin(ADD | {"terminate": terminate})
    world.step()
    world.stops["r"].set("cancelled")
    world.step()
    assert world.end() == Outcome("cancelled", "cancelled")
    assert world.celery.revoked == [("r-1", terminate)]


def test_a_run_that_takes_too_long_has_its_task_revoked_and_fails(world: World) -> None:
    world.begin()
    world.step()
    world.stops["r"].set("timeout")
    world.step()
    assert (world.end().status, world.end().reason) == ("failed", "timeout")
    assert world.celery.revoked == [("r-1", False)]


@pytest.mark.parametrize("reason", ["shutdown", "lost", "lease"])
def test_a_run_that_is_handed_back_leaves_its_task_to_the_next(world: World, reason: str) -> None:
    world.begin()
    world.step()
    world.stops["r"].set(reason)
    world.step()
    assert world.end() == Outcome("cancelled", reason)
    assert not world.celery.revoked


def test_what_was_never_sent_is_not_revoked(world: World) -> None:
    world.begin()
    world.stops["r"].set("cancelled")
    world.step()
    assert world.end().status == "cancelled"
    assert not world.celery.revoked
    assert not world.celery.sent


def test_a_cancelled_run_ends_although_the_broker_is_out_of_reach(world: World) -> None:
    world.begin()
    world.step()
    world.celery.down = {"broker"}
    world.stops["r"].set("cancelled")
    world.step()
    assert world.end().status == "cancelled"
    assert "could not be revoked" in world.reports["r"].notes


def test_a_task_is_revoked_when_the_broker_is_back_although_its_run_has_ended(world: World) -> None:
    for name in ("r", "s"):
        world.begin(run_id=name)
    world.step()
    world.celery.down = {"broker"}
    for name in ("r", "s"):
        world.stops[name].set("cancelled")
        world.step(0.01)
    assert [world.end(name).status for name in ("r", "s")] == ["cancelled", "cancelled"]
    assert world.step(0.01) is not None
    world.celery.down = set()
    world.step(10)
    assert world.celery.revoked == [("r-1", False), ("s-1", False)]
    assert world.step() is None


def test_a_revoke_that_the_broker_refuses_holds_up_no_other_task(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.celery.refuses_revokes = "AccessRefused: pidbox"
    world.begin()
    world.step()
    world.stops["r"].set("cancelled")
    world.begin(run_id="s")
    world.step()
    assert [id_ for *_, id_ in world.celery.sent] == ["r-1", "s-1"]
    assert world.end() == Outcome("cancelled", "cancelled")
    assert "r-1 could not be revoked, because the broker refused it" in world.reports["r"].notes
    assert "refused to revoke 1 task(s), the first is r-1: AccessRefused: pidbox" in caplog.text
    assert world.runs.unreachable is None


def test_runs_that_come_while_the_broker_is_out_of_reach_do_not_try_it_and_say_so(
    world: World,
) -> None:
    world.celery.down = {"broker"}
    world.begin()
    world.step()
    world.celery.down = set()
    world.begin(run_id="s")
    world.step()
    assert not world.celery.sent
    assert world.runs.unreachable == "the broker cannot be reached"
    assert eventually(lambda: world.outages) == ["the broker cannot be reached"]
    assert world.reports["s"].notes == "the broker cannot be reached; trying again"
    world.step(10)
    assert [id_ for *_, id_ in world.celery.sent] == ["r-1", "s-1"]
    assert not world.runs.unreachable
    assert eventually(lambda: world.outages[1:]) == [None]
    assert world.told == ["sent 10 s late: the broker of Celery could not be reached"] * 2


def test_an_outage_is_told_as_long_as_a_run_or_a_revoke_waits_for_its_end(world: World) -> None:
    world.begin()
    world.begin(run_id="s")
    world.step()
    world.celery.down = {"broker", "backend"}
    world.stops["r"].set("cancelled")
    world.step(1)
    assert world.runs.unreachable == "the broker cannot be reached"
    world.celery.down = {"backend"}
    world.step(10)
    assert world.runs.unreachable == "the backend cannot be reached"
    world.stops["s"].set("shutdown")
    world.step(1)
    assert not world.runs.unreachable
    assert eventually(lambda: world.outages[-1:] == [None])


def test_a_task_with_which_the_broker_failed_is_asked_for_before_it_is_sent_again(
    world: World,
) -> None:
    world.celery.loses = True
    world.begin()
    world.step()
    assert [id_ for *_, id_ in world.celery.sent] == ["r-1"]
    world.celery.loses = False
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.step(10)
    assert not world.ended
    world.step(ASK_AFTER)
    assert world.end().output == "3"
    assert len(world.celery.sent) == 1
    assert world.told == [
        "the broker failed while it had the task: Celery task r-1 had already ended"
    ]


def test_a_task_with_which_the_broker_failed_and_that_nobody_knows_is_sent_again(
    world: World,
) -> None:
    world.celery.loses = True
    world.begin()
    world.begin(run_id="s")
    world.step()
    world.celery.loses = False
    for _ in range(3):
        world.step(10)
    assert [id_ for *_, id_ in world.celery.sent] == ["r-1", "s-1", "r-1"]
    assert world.told == [
        "sent 10 s late: the broker of Celery could not be reached",
        (
            "the broker failed while it had the task: cannot know whether Celery task r-1 was sent "
            "before, because the result backend has no record of it; sent, so it may run twice"
        ),
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_a_task_that_must_not_run_twice_is_not_sent_again_when_the_broker_failed_with_it(
    world: World, waits: bool
) -> None:
    world.celery.waits, world.celery.loses = waits, True
    world.begin(max_takeovers=0)
    world.step()
    world.celery.loses = False
    world.step(10)
    world.step(ASK_AFTER)
    assert (world.end().status, world.end().reason) == ("failed", "not_sent")
    assert "cannot know whether Celery task r-1 was sent" in (world.end().error or "")
    assert len(world.celery.sent) == 1


def test_a_broker_that_accepts_connections_and_no_tasks_is_tried_less_and_less_often(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.celery.loses = True
    for number in range(9):
        world.begin(run_id=f"r{number}")
    moments = []
    for _ in range(1_000):
        before = len(world.celery.sent)
        world.step(0.01)
        if len(world.celery.sent) > before:
            moments.append(world.now)
    pauses = [later - earlier for earlier, later in pairwise(moments)][:6]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 10 * pauses[0]
    assert caplog.text.count("the broker does not answer; trying again") == 1


def test_a_task_with_which_the_broker_always_fails_ends_its_run(world: World) -> None:
    world.celery.loses = True
    world.begin()
    for _ in range(5 * MOST_LOST):
        world.step(10)
    assert (world.end().status, world.end().reason) == ("failed", "not_sent")
    assert f"the broker failed {MOST_LOST} times" in (world.end().error or "")
    assert len(world.celery.sent) == MOST_LOST
    assert world.step() is None


def test_a_task_that_the_backend_forgot_fails_its_run(world: World) -> None:
    world.begin()
    world.step()
    world.celery.records.clear()
    world.step(1)
    assert world.end().reason == "result_lost"


def test_a_task_that_could_not_be_marked_is_waited_for_and_then_must_not_be_forgotten(
    world: World,
) -> None:
    world.celery.marks = False
    world.begin()
    world.step()
    world.step(1)
    assert not world.ended
    world.celery.records["r-1"] = CeleryRecord("STARTED")
    world.step(1)
    world.celery.records.clear()
    world.step(1)
    assert world.end().reason == "result_lost"


@pytest.mark.parametrize("given", ["no backend", "wait: false"])
def test_without_a_result_to_wait_for_a_run_ends_when_its_task_is_sent(
    world: World, given: str
) -> None:
    world.celery.waits = given != "no backend"
    world.begin(ADD if given == "no backend" else ADD | {"wait": False})
    world.step()
    assert world.end() == Outcome("succeeded")
    assert ("no result backend" in world.reports["r"].notes) == (given == "no backend")


def test_a_log_that_cannot_be_written_does_not_keep_its_run(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.begin()
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)

    def close() -> None:
        raise Unavailable("the database cannot be reached")

    monkeypatch.setattr(world.reports["r"], "close", close)
    world.step()
    assert world.end().status == "succeeded"
    assert "its log could not be closed" in caplog.text


@pytest.mark.parametrize("where", ["prepare", "follow"])
def test_an_unexpected_error_ends_its_own_run_only(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    world.begin(ADD | {"args": ["boom"]} if where == "prepare" else ADD)
    world.begin(run_id="s")
    if where == "follow":
        monkeypatch.setattr(world.reports["r"], "line", lambda *_: fail("boom"))
    world.step()
    for run_id in ("r-1", "s-1"):
        world.celery.records[run_id] = CeleryRecord("FAILURE", {"exc_type": "OSError"}, "Traceback")
    world.step(1)
    assert world.end() == Outcome("failed", "error", "ValueError: boom")
    assert world.end("s").error == "OSError"


def test_a_thread_that_cannot_start_is_started_with_the_next_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", start)
        with pytest.raises(RuntimeError):
            world.runs.begin([])
    world.begin()
    world.runs.begin([])
    assert eventually(lambda: world.celery.sent)


def test_its_thread_does_the_steps(world: World) -> None:
    world.runs.begin([])
    world.begin()
    eventually(lambda: world.celery.sent)
    world.celery.records["r-1"] = CeleryRecord("SUCCESS", 3)
    world.now += 10
    world.runs.begin([])
    world.stops["r"].set("cancelled")
    assert replace(world.end(), output=None).status in ("cancelled", "succeeded")
