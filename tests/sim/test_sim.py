"""A sample of the simulation for every build, limited by its worlds and not by a clock. Also tests
that it finds a broken rule, gives the same history for the same seed, and reduces a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duebook.delivery import courier
from duebook.delivery.courier import Courier
from duebook.delivery.moves import judged
from duebook.model.consumer import Report
from duebook.model.queue import QueueLimiter
from duebook.planner.open_days import OpenDays
from duebook.store.sql.plans import Plans
from duebook.store.sql.queues import Queues
from tests.sim import world
from tests.sim.play import as_test, play, shrink
from tests.sim.script import CROWDED, Action, Fault, Script, draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.delivery.courier import Round
    from duebook.model.consumer import Delivery

SAMPLE = (6, 13, 36)
"""Seeds of small worlds."""


@pytest.mark.parametrize("seed", SAMPLE)
def test_no_invariant_breaks(seed: int) -> None:
    assert play(draw(seed)).problems == []


def test_no_invariant_breaks_where_much_is_due_at_once() -> None:
    names = tuple(f"{name}-{number}" for number in range(12) for name in CROWDED)
    faults = (Fault(3.0, "crash", 0, 30), Fault(4.0, "database_jump", 0, 30.0))
    played = play(Script(3, 2, 8.0, 40, schedules=names, faults=faults))
    assert played.problems == []
    assert played.due_times > 1_500


def test_the_same_seed_gives_the_same_trace() -> None:
    script = replace(draw(13), seconds=20.0)
    first, second = play(script), play(script)
    assert first.trace == second.trace
    assert first.counts["turns"] > 1_000
    assert play(Script(10, seconds=10.0)).trace != play(Script(11, seconds=10.0)).trace


def test_a_watermark_that_moves_before_the_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = tuple(Fault(3.0 + n * 1.5, "crash", n % 2, 5 + n) for n in range(40))
    script = Script(4, nodes=2, seconds=70.0, schedules=("allow", "queue", "skip"), faults=faults)
    assert play(script).problems == []
    original = Plans._save_states

    def save_states(self: Any, plans: Any) -> Any:
        saved = original(self, plans)
        for sql in ("COMMIT", "BEGIN IMMEDIATE", "SAVEPOINT operation"):
            self._db.connection.execute(sql)
        return saved

    monkeypatch.setattr(Plans, "_save_states", save_states)
    assert "I2" in play(script).violated


def test_a_cursor_that_moves_before_delivery_is_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = tuple(Fault(2.0 + n, "crash", n % 2, 3 + n % 7) for n in range(24))
    actions = tuple(Action(4.0 + n * 3, "trigger", "allow") for n in range(6))
    names = ("event", "allow")
    script = Script(5, nodes=2, seconds=30.0, schedules=names, faults=faults, actions=actions)
    assert play(script).problems == []

    def perform(self: Courier, found: Round) -> None:
        self.settle(found, Report())
        assert self._outlet is not None
        self._outlet.deliver(found.deliveries)

    monkeypatch.setattr(Courier, "perform", perform)
    played = play(script)
    assert "I5" in played.violated
    small, tries = shrink(script, lambda one: "I5" in play(one).violated, most_tries=6)
    assert tries <= 6
    assert "I5" in play(small).violated
    assert len(small.faults) + len(small.actions) < len(faults) + len(actions)
    text = as_test(small, played.problems)
    found: dict[str, Any] = {"Script": Script, "Fault": Fault, "Action": Action, "play": play}
    exec(text, found)  # noqa: S102
    with pytest.raises(AssertionError):
        found["test_seed_5"]()


def test_a_limit_of_a_queue_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = tuple(Action(3.0 + n * 0.2, "trigger", "limited") for n in range(12))
    script = Script(7, nodes=2, seconds=16.0, schedules=("limited",), actions=actions)
    assert play(script).problems == []
    monkeypatch.setattr(Queues, "_running", lambda *_: 0)
    assert "I3" in play(script).violated


def test_a_closed_day_that_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(8, nodes=1, seconds=56.0, schedules=("closed",))
    assert play(script).problems == []
    monkeypatch.setattr(OpenDays, "closing", lambda *_: None)
    monkeypatch.setattr(OpenDays, "closed_between", lambda *_: iter(()))
    assert "I2" in play(script).violated


def test_a_rate_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = tuple(Action(3.0 + n * 0.2, "trigger", "paced") for n in range(12))
    script = Script(27, 2, 16.0, schedules=("paced",), actions=actions)
    assert play(script).problems == []
    monkeypatch.setattr(QueueLimiter, "passed", lambda self, *_: self)
    assert "I3" in play(script).violated


def test_an_event_that_is_given_up_too_soon_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = tuple(Action(2.0 + n * 0.3, "publish", "event") for n in range(40))
    script = Script(28, 1, 16.0, schedules=("event",), actions=actions)
    monkeypatch.setattr(world, "ATTEMPTS", 1)
    assert play(script).problems == []

    def judge(deliveries: Sequence[Delivery], report: Report) -> Report:
        told = judged(deliveries, report)
        return replace(told, rejected=told.rejected | told.undelivered, undelivered={})

    monkeypatch.setattr(courier, "judged", judge)
    assert "I5" in play(script).violated
