"""Shadow mode, with nodes on a virtual clock: what is recorded, and who runs a due time at the
border between two schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook import at, cron, every
from duebook.balance import check_books
from duebook.errors import Invalid
from duebook.testing import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

HOURLY: dict[str, Any] = {"trigger": cron("0 * * * *"), "target": "etl"}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(start="2026-02-07T00:30:00Z") as made:
        made.task("etl")
        yield made
        assert check_books(made.book.store, deep=True).balanced


def ran(sim: Simulation, name: str = "etl") -> list[str]:
    return [f"{run.due_at:%H:%M}" for run in sim.runs(name) if run.due_at]


def recorded(sim: Simulation, name: str = "etl") -> list[str]:
    found = sim.book.shadow.report("2026-01-01T00:00:00Z")
    return [f"{one.due_at:%H:%M}" for one in found if one.schedule == name]


def test_nothing_runs_in_shadow_mode_and_each_due_time_is_recorded(sim: Simulation) -> None:
    sim.book.shadow.on()
    sim.book.schedules.create("etl", **HOURLY)  # also what is created later
    sim.advance("3h")
    assert (ran(sim), recorded(sim)) == ([], ["01:00", "02:00", "03:00"])
    entries = [(entry.verdict, entry.reason, entry.count) for entry in sim.ledger("etl")]
    assert entries == [("skipped", "shadow", 1)] * 3
    told = str(sim.book.schedules.explain("etl", "2026-02-07T02:00:00Z"))
    assert told.endswith("skipped: shadow mode recorded it; it would have started at 02:00")
    told = str(sim.book.schedules.explain("etl", "2026-02-07T05:00:00Z"))
    assert told.endswith("but shadow mode will record it instead of running it")


def test_a_switch_fires_nothing_of_the_past(sim: Simulation) -> None:
    sim.book.schedules.create("etl", catchup="all", catchup_pace="0s", **HOURLY)
    sim.book.shadow.on()
    sim.advance("2h")
    sim.scheduler_down()
    sim.advance("3h")
    sim.book.shadow.off()  # with three due times that nobody has planned
    sim.scheduler_up()
    sim.advance("2h")
    assert recorded(sim) == ["01:00", "02:00", "03:00", "04:00", "05:00"]
    assert ran(sim) == ["06:00", "07:00"]


def test_what_was_due_before_the_way_back_is_still_run(sim: Simulation) -> None:
    """It was Duebook's: the other scheduler begins with what is due after the switch."""
    sim.book.schedules.create("etl", catchup="all", catchup_pace="0s", overlap="allow", **HOURLY)
    sim.advance("1h")
    sim.scheduler_down()
    sim.advance("2h")
    sim.book.shadow.on()
    sim.advance("1h")
    sim.scheduler_up()
    sim.advance("1h")
    assert ran(sim) == ["01:00", "02:00", "03:00"]
    assert recorded(sim) == ["04:00", "05:00"]


def test_there_and_back_again_while_nobody_plans(sim: Simulation) -> None:
    """Each due time belongs to the mode of its own instant, whenever it is planned."""
    sim.book.schedules.create("etl", catchup="all", catchup_pace="0s", overlap="allow", **HOURLY)
    sim.book.shadow.on()
    sim.scheduler_down()
    for switch in (sim.book.shadow.off, sim.book.shadow.on, sim.book.shadow.off):
        sim.advance("2h")
        switch()
    sim.advance("2h")
    sim.scheduler_up()
    sim.advance("1m")
    assert recorded(sim) == ["01:00", "02:00", "05:00", "06:00"]
    assert ran(sim) == ["03:00", "04:00", "07:00", "08:00"]


@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "cancel", "allow"])
def test_two_schedulers_run_each_due_time_exactly_once(sim: Simulation, overlap: str) -> None:
    """The other one runs what is due before 03:00, Duebook from 03:00 on, and after 06:00 the other
    one again; the switches are planned ahead, and a scheduler that is late changes nothing."""
    border, back = "2026-02-07T03:00:00Z", "2026-02-07T06:00:00Z"
    sim.task("etl", takes="10m")
    sim.book.shadow.on()
    sim.book.schedules.create("etl", catchup="all", catchup_pace="0s", overlap=overlap, **HOURLY)
    sim.book.shadow.off(at=border)
    sim.book.shadow.on(at=back)
    sim.advance("2h29m")
    sim.scheduler_down()
    sim.advance("70s")
    sim.scheduler_up()
    sim.advance("6h")
    others = ["01:00", "02:00", "06:00", "07:00", "08:00", "09:00"]
    assert recorded(sim) == others
    assert ran(sim) == ["03:00", "04:00", "05:00"]


def test_a_canary_is_chosen_by_label_and_taken_back(sim: Simulation) -> None:
    book = sim.book
    book.shadow.on()
    for name, labels in (("etl", {"wave": "1"}), ("mail", {"wave": "2"}), ("rest", {})):
        book.schedules.create(name, labels=labels, **HOURLY)
    sim.advance("1h")
    book.shadow.off(labels={"wave": "1"})
    sim.advance("1h")
    book.shadow.off("rest")
    sim.advance("1h")
    book.shadow.on(labels={"wave": "1"})
    sim.advance("1h")
    assert [ran(sim, name) for name in ("etl", "mail", "rest")] == [
        ["02:00", "03:00"],
        [],
        ["03:00", "04:00"],
    ]
    assert recorded(sim) == ["01:00", "04:00"]
    (note,) = [one for one in book.readiness().notes if "rest" in one.message]
    assert note.message.startswith(
        'shadow mode is on for all schedules, but for schedule "rest", since 2026-02-07T00:30:00Z'
    )


def test_catch_up_is_planned_as_it_would_be(sim: Simulation) -> None:
    sim.book.shadow.on()
    sim.book.schedules.create("etl", catchup="one", **HOURLY)
    sim.scheduler_down()
    sim.advance("4h")
    sim.scheduler_up()
    sim.advance("1m")
    (found,) = sim.book.shadow.report("2026-01-01T00:00:00Z")
    assert (f"{found.due_at:%H:%M}", found.origin) == ("04:00", "catchup")
    assert f"{found.planned_at:%H:%M}" == "04:30"
    assert [entry.reason for entry in sim.ledger("etl")] == ["coalesced", "shadow"]


def test_nothing_of_shadow_mode_waits_for_approval(sim: Simulation) -> None:
    policies: dict[str, Any] = {"catchup": "all", "catchup_approval": 1, "catchup_pace": "0s"}
    sim.book.schedules.create("etl", overlap="allow", **policies, **HOURLY)
    sim.advance("1h")
    sim.scheduler_down()
    sim.advance("2h")  # 02:00 and 03:00 are Duebook's
    sim.book.shadow.on()
    sim.advance("3h")
    sim.scheduler_up()
    sim.advance("1m")
    held = [(f"{h.due_from:%H:%M}", h.count) for h in sim.book.catchup.list()]
    assert held == [("02:00", 2)]
    (entry,) = [entry for entry in sim.ledger("etl") if entry.reason == "shadow"]
    assert entry.count == 3
    sim.book.catchup.approve("etl")
    sim.advance("5m")
    assert ran(sim) == ["01:00", "02:00", "03:00"]


def test_shadow_mode_uses_up_no_runs_and_emits_no_events(sim: Simulation) -> None:
    sim.book.shadow.on()
    sim.book.schedules.create("etl", max_runs=1, **HOURLY)
    sim.book.schedules.create(
        "tell", trigger=every("1h"), target={"event": {"topic": "orders", "data": {}}}
    )
    sim.book.schedules.create("once", trigger=at("2026-02-07T02:00:00Z"), target="etl")
    sim.advance("3h")
    assert not [event for event in sim.book.events.list() if event.topic == "orders"]
    assert sim.book.schedules.get("once").status == "completed"
    assert recorded(sim, "once") == ["02:00"]
    sim.book.shadow.off()
    sim.advance("3h")
    assert ran(sim) == ["04:00"]
    assert ran(sim, "once") == []


def test_dependencies_and_active_runs_hold_up_nothing_that_is_recorded(sim: Simulation) -> None:
    sim.task("etl", takes="5h")
    sim.book.schedules.create("etl", overlap="queue", **HOURLY)
    depends = [{"schedule": "etl", "within": "1h", "wait": "30m"}]
    sim.book.schedules.create("after", depends_on=depends, **HOURLY)
    sim.advance("1h")
    sim.book.shadow.on()
    sim.advance("2h")
    assert (ran(sim), recorded(sim)) == (["01:00"], ["02:00", "03:00"])
    assert recorded(sim, "after") == ["02:00", "03:00"]


def test_a_manual_run_is_executed_and_a_backfill_runs_what_was_recorded(sim: Simulation) -> None:
    sim.book.shadow.on()
    sim.book.schedules.create("etl", **HOURLY)
    sim.advance("2h")
    sim.book.schedules.trigger("etl")
    sim.advance("1m")
    assert [run.status for run in sim.runs("etl")] == ["succeeded"]
    sim.book.schedules.backfill("etl", "2026-02-07T01:00:00Z", "2026-02-07T01:00:00Z")
    sim.advance("1m")
    assert ran(sim) == ["01:00"]


def test_stops_and_restarts_of_a_flow_do_nothing_in_shadow_mode(sim: Simulation) -> None:
    sim.flow(
        """
name: site
schedule:
  start: "0 * * * *"
  stop: "50 1 * * *"
steps:
  - name: serve
    command: serve
""",
    )
    sim.task("site.serve", takes="20h")
    sim.advance("31m")  # it started at 01:00
    sim.book.shadow.on()
    sim.advance("1h")
    entries = {(entry.kind, entry.reason) for entry in sim.ledger("site")}
    assert entries == {("stop", "shadow"), ("start", "shadow")}
    (run,) = sim.runs("site")
    assert run.status == "running"


def test_a_switch_in_the_past_is_refused(sim: Simulation) -> None:
    with pytest.raises(Invalid, match="is in the past: what was due then is decided"):
        sim.book.shadow.on(at="2026-02-06T00:00:00Z")


def test_switches_that_no_due_time_needs_are_forgotten(sim: Simulation) -> None:
    def switches() -> list[tuple[bool, dict[str, str], datetime]]:
        return [(one.shadow, one.labels, one.at) for one in sim.book.shadow.list()]

    sim.book.shadow.on(labels={"team": "x"})
    sim.book.shadow.on()
    sim.book.shadow.off(labels={"team": "x"})
    sim.advance("91d")
    sim.book.shadow.off()
    kept = [(shadow, labels) for shadow, labels, _ in switches()]
    assert kept == [(True, {}), (False, {"team": "x"}), (False, {})]
    sim.advance("91d")
    sim.book.shadow.off("etl")
    kept = [(shadow, labels) for shadow, labels, _ in switches()]
    assert kept == [(False, {}), (False, {})]
