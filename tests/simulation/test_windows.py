"""Maintenance windows, with nodes on a virtual clock."""

from __future__ import annotations

from typing import Any

from duebook.testing import Simulation


def test_the_next_due_time_of_a_new_schedule_is_after_the_window() -> None:
    """However it is created; one with other labels is due at once."""
    with Simulation(start="2026-03-03T00:30:00Z") as sim:
        book = sim.book
        start, end = "2026-03-03T00:00:00Z", "2026-03-06T00:00:00Z"
        book.windows.add("db", start, end, labels={"team": "x"})
        form: dict[str, Any] = {"trigger": {"cron": "0 9 * * *"}, "target": {"command": ["true"]}}
        mine = form | {"labels": {"team": "x"}}
        book.schedules.create("a", **mine)
        book.schedules.create_many([{"name": "b", **mine}])
        book.schedules.declare([{"name": "c", **mine}], owner="me")
        book.schedules.create("other", **form)
        once = {"at": "2026-03-04T09:00:00Z"}
        book.schedules.create("once", **mine | {"trigger": once})
        found = {name: book.schedules.get(name).next_due_at for name in "abc"}
        assert {at and f"{at:%m-%d %H:%M}" for at in found.values()} == {"03-06 09:00"}
        assert f"{book.schedules.get('other').next_due_at:%m-%d}" == "03-03"
        drafted = book.schedules.preview_create("d", count=1, **mine)
        assert [f"{at:%m-%d %H:%M}" for at in drafted.will_be_due] == ["03-06 09:00"]
        assert book.schedules.get("once").next_due_at is None
        sim.advance("4d")
        assert [f"{run.due_at:%m-%d %H:%M}" for run in sim.runs("a")] == ["03-06 09:00"]
        (entry,) = sim.ledger("once")
        assert entry.reason == "paused"
        assert book.schedules.get("once").status == "completed"


def test_an_edit_of_labels_shows_the_due_times_without_the_windows_that_select_them() -> None:
    with Simulation(start="2026-03-03T00:30:00Z") as sim:
        book = sim.book
        book.windows.add("db", "2026-03-03T00:00:00Z", "2026-03-06T00:00:00Z", {"team": "x"})
        target = {"command": ["true"]}
        book.schedules.create("a", trigger={"cron": "0 9 * * *"}, target=target)
        shown = book.schedules.preview_update("a", count=1, labels={"team": "x"})
        assert [f"{at:%m-%d}" for at in (*shown.was_due, *shown.will_be_due)] == ["03-03", "03-06"]


def test_a_due_time_that_has_waited_for_long_still_knows_its_window() -> None:
    with Simulation(start="2026-03-03T00:30:00Z") as sim:
        sim.task("t", takes="1m")
        catches_up: dict[str, Any] = {"catchup": "all", "on_resume": "catchup", "overlap": "allow"}
        trigger = {"cron": "0 9 * * *"}
        sim.book.schedules.create(
            "etl", trigger=trigger, target="t", catchup_pace="0s", **catches_up
        )
        sim.book.windows.add("db", "2026-03-05T00:00:00Z", "2026-03-07T00:00:00Z")
        sim.book.schedules.pause("etl")
        sim.advance("60d")
        sim.book.schedules.resume("etl")
        sim.advance("1h")
        ran = [f"{run.due_at:%m-%d}" for run in sim.runs("etl")]
        assert ran[:3] == ["03-03", "03-04", "03-07"]
        assert len(ran) == 58
        (entry,) = sim.ledger("etl")
        assert (entry.reason, entry.count) == ("paused", 2)
