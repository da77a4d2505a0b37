"""What schedules need is reckoned from the constants, and the page says the same."""

from __future__ import annotations

import pytest
from tools import capacity
from tools.capacity import RUN_BYTES, need, rounded, size
from tools.derive import ROOT

PAGE = (ROOT / "docs" / "capacity.md").read_text("utf-8")
DAY = 86_400


def test_the_mean_is_what_is_due_in_a_day() -> None:
    one = need(DAY, 24, 1)
    assert one.due == 24
    assert one.history == pytest.approx(24 * DAY * (RUN_BYTES + capacity.KEY_BYTES))
    assert one.static == DAY * capacity.SCHEDULE_BYTES


def test_few_schedules_need_one_database_and_three_nodes() -> None:
    one = need(1_000, 1, 90)
    assert (one.databases, one.nodes, one.server_cores, one.node_cores) == (1, 3, 1, 1)


def test_history_or_the_busiest_minute_decides_how_many_databases_there_are() -> None:
    by_history, by_peak = need(100_000_000, 1, 90), need(100_000_000, 24, 1)
    assert by_history.databases == 8
    assert by_peak.databases == 28


@pytest.mark.parametrize("more", ["schedules", "a_day", "keep_days"])
def test_more_of_anything_never_needs_less(more: str) -> None:
    few = {"schedules": 1_000_000, "a_day": 4, "keep_days": 30}
    small, large = need(**few), need(**few | {more: few[more] * 7})
    for field in ("due", "static", "history", "wal", "server_cores", "databases", "nodes"):
        assert getattr(large, field) >= getattr(small, field)


def test_the_worked_example_of_the_page_is_what_is_reckoned() -> None:
    one = need(100_000_000, 1, 90)
    for text in (
        f"| {rounded(one.due)} a second |",
        f"| {size(one.static)} |",
        f"| {size(one.hot)} |",
        f"| {size(one.history)} |",
        f"| {size(one.history / 90)} |",
        f"| {size(one.wal)} a second |",
        f"| {one.server_cores} cores |",
        f"| {one.node_cores} cores |",
    ):
        assert text in PAGE, text


def test_figures_are_rounded_to_what_is_known() -> None:
    assert [rounded(n) for n in (0.0123, 11.57, 1_157, 277_777)] == [
        "0.012",
        "12",
        "1,200",
        "280,000",
    ]
    assert [size(n) for n in (1_500, 4.5e9, 7.65e12, 765e9)] == [
        "2 kB",
        "4.5 GB",
        "7.7 TB",
        "765 GB",
    ]
