"""Other minutes for schedules that may move."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from duebook.budget import Budget
from duebook.foresight.spread import spread
from tests.unit.foresight.builders import START, entry

if TYPE_CHECKING:
    from duebook.foresight.spread import Spread

LABEL = ("may-move", "true")
MAY_MOVE = {"may-move": "true"}


def spread_out(*triggers: Any, names: tuple[str, ...] = (), **policies: Any) -> Spread:
    entries = [entry(f"s{n}", trigger, **policies) for n, trigger in enumerate(triggers)]
    specs = {one.name: one.spec for one in entries}
    takes = {one.name: timedelta(minutes=5) for one in entries}
    return spread(specs, takes, START, START + timedelta(days=7), LABEL, names)


def test_schedules_that_start_together_get_minutes_apart() -> None:
    found = spread_out(*["0 2 * * *"] * 6, labels=MAY_MOVE)
    minutes = [int(spec.trigger_text.split()[0]) for spec in found.specs.values()]
    assert len(minutes) == 5  # one may stay
    everything = sorted([0, *minutes])
    assert all(b - a >= 5 for a, b in pairwise(everything))
    assert all(spec.trigger_text.endswith(" 2 * * *") for spec in found.specs.values())


def test_only_those_move_that_may() -> None:
    assert spread_out(*["0 2 * * *"] * 3).movable == 0
    found = spread_out(*["0 2 * * *"] * 3, names=("s1",))
    assert list(found.specs) == ["s1"]
    found = spread_out("0 2 * * *", "H 2 * * *")
    assert found.movable == 1


@pytest.mark.parametrize(
    ("trigger", "cadence"),
    [
        ({"cron": "*/15 * * * *"}, timedelta(minutes=15)),
        ({"every": "15m", "anchor": "2026-01-01T00:00:00Z"}, timedelta(minutes=15)),
        ({"daily": ["02:00"], "tz": "Europe/Brussels"}, timedelta(days=1)),
        ({"weekly": "MON,TUE 02:00"}, timedelta(days=1)),
        ({"cron": "0 * * * *"}, timedelta(hours=1)),
    ],
)
def test_a_schedule_that_moves_keeps_its_cadence(trigger: Any, cadence: timedelta) -> None:
    found = spread_out(trigger, trigger, labels=MAY_MOVE)
    (spec,) = found.specs.values()
    moved = spec.triggers[0]
    first = moved.next_after(START + timedelta(days=3))
    assert first is not None
    following = moved.next_after(first)
    assert following is not None
    assert following - first == cadence


def test_what_cannot_move_says_so() -> None:
    found = spread_out("1,7 2 * * *", [{"cron": "0 2 * * *"}, {"every": "1h"}], labels=MAY_MOVE)
    assert list(found.fixed) == ["s0", "s1"]
    assert not found.specs


def test_a_run_that_starts_within_a_minute_touches_one_more() -> None:
    interval = {"every": "1h", "anchor": "2026-01-01T00:20:25Z"}
    found = spread_out("20 2 * * *", "25 2 * * *", interval, names=("s0", "s1"))
    minutes = [int(spec.trigger_text.split()[0]) for spec in found.specs.values()]
    assert not set(minutes) & set(range(16, 26))  # it runs from 02:20:25 to 02:25:25


def test_what_a_program_declares_stays_where_it_is() -> None:
    entries = [
        entry(f"s{n}", "H 2 * * *", labels=labels) for n, labels in enumerate((MAY_MOVE, {}))
    ]
    specs = {one.name: one.spec for one in entries}
    takes = dict.fromkeys(specs, timedelta(minutes=5))
    period = START, START + timedelta(days=7)
    found = spread(specs, takes, *period, LABEL, (), None, dict.fromkeys(specs, "change it there"))
    assert (found.movable, found.fixed) == (0, {"s0": "change it there"})


def test_long_runs_at_every_minute_take_little_memory() -> None:
    one = entry("long", "* * * * *")
    day = timedelta(days=1)
    tracemalloc.start()
    try:
        spread({"long": one.spec}, {"long": day}, START, START + day, LABEL, (), Budget(60))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000  # a list of all minutes of all runs has 2,073,600 items


def test_runs_that_take_hours_move_apart() -> None:
    entries = [entry(f"s{n}", "0 2 * * *", labels=MAY_MOVE) for n in range(3)]
    specs = {one.name: one.spec for one in entries} | {"often": entry("often", "*/5 * * * *").spec}
    takes = dict.fromkeys(specs, timedelta(minutes=20)) | {"often": timedelta(days=2)}
    found = spread(specs, takes, START, START + timedelta(days=7), LABEL, ())
    assert len({spec.trigger_text for spec in found.specs.values()}) == len(found.specs) == 2


def test_the_same_question_has_the_same_answer() -> None:
    triggers = ["0 2 * * *", "0 * * * *", "*/5 * * * *", "H 2 * * *", "30 2 * * *"]
    one, other = (spread_out(*triggers, labels=MAY_MOVE) for _ in range(2))
    assert one == other
