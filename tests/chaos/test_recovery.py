"""How long a fault had an effect, according to evidence that is made up here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.failover_storm import FailoverStorm, open_pair
from tests.chaos.recovery import IN_ROW, SHORTEST, TIMES, Disturbance, Recovery
from tests.support.nodes import Evidence

if TYPE_CHECKING:
    from pathlib import Path


def start(due: float, late: float, schedule: str = "beat", attempt: int = 1) -> Evidence:
    return Evidence("start", schedule, f"run-{due}", attempt, due, 1, "node", due + late)


def test_what_is_normal_is_learned_from_the_calm() -> None:
    recovery = Recovery("beat")
    recovery.learn([start(n, 0.1) for n in range(8)] + [start(9, 30, "other")])
    assert recovery.normal == SHORTEST
    recovery.learn([start(n, 0.1 * n) for n in range(8)])
    assert recovery.normal == pytest.approx(TIMES * 0.7)


def test_recovery_lasts_from_the_end_of_a_fault_to_the_last_late_start() -> None:
    faults = [Disturbance("kill", 10, 12), Disturbance("kill", 30, 31)]
    recovery = Recovery("beat", 1.0, faults)
    starts = [start(9, 0.1), start(11, 4), start(13, 1.5), start(20, 0.1), start(30, 0.2)]
    assert recovery.seconds(starts) == {"kill": [3, 0]}


def test_a_run_that_begins_again_counts_and_a_late_one_of_another_schedule_does_not() -> None:
    recovery = Recovery("beat", 1.0, [Disturbance("kill", 10, 12)])
    assert recovery.seconds([start(9, 5, "slow")]) == {"kill": [0]}
    assert recovery.seconds([start(9, 5, "slow", attempt=2)]) == {"kill": [2]}


def test_it_is_calm_when_the_last_due_times_in_a_row_started_on_time() -> None:
    recovery = Recovery("beat", 1.0)
    starts = [start(n, 0.1) for n in range(10)]
    assert recovery.is_calm(starts, since=5)
    assert not recovery.is_calm(starts, since=9 - IN_ROW + 1)
    assert not recovery.is_calm([*starts, start(10, 2)], since=5)


def test_a_table_names_each_kind_of_fault() -> None:
    recovery = Recovery("beat")
    assert [*recovery.told([])] == []
    recovery.note("cut", 10)
    assert [line.split()[0] for line in recovery.told([])] == ["recovery:", "kind", "cut"]


@pytest.mark.long
def test_nothing_is_lost_when_the_standby_takes_over(tmp_path: Path) -> None:
    told: list[str] = []
    with open_pair(tmp_path) as (fleet, standby):
        assert FailoverStorm(fleet, standby, 3, told.append).blow() == [], "\n".join(told)
