"""Times on either side of a step of the clock: what overlaps, and what only seems to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.model.clock_step import ClockStep, Span, overlap, repeated, shown_before

SLACK = timedelta(seconds=10)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-05T{text}:00+00:00").astimezone(UTC)


STEP = ClockStep(at("10:06"), at("09:18"), at("09:19"), place=100, active=frozenset({"a100"}))


def span(run_id: str, began: str, ended: str, created: str | None = None) -> Span:
    """`a100` is the run of place 100."""
    return Span(run_id, int(run_id[1:]), at(created or began), at(began), at(ended))


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (span("a50", "09:30", "09:40"), span("a51", "09:35", "09:45"), True),
        (span("a50", "09:30", "09:40"), span("a51", "09:41", "09:45"), False),
        (span("a150", "09:30", "09:40"), span("a151", "09:35", "09:45"), True),
        (span("a50", "09:30", "09:40"), span("a150", "09:35", "09:45"), False),
        (span("a50", "10:00", "10:05"), span("a150", "10:01", "10:06"), False),
        (span("a100", "10:05", "09:21"), span("a150", "09:20", "09:25", "09:20"), True),
        (span("a100", "10:05", "09:21"), span("a150", "09:22", "09:25", "09:22"), False),
        (span("a50", "08:00", "08:30"), span("a51", "08:15", "08:45"), True),
        (span("a150", "11:00", "11:30"), span("a151", "11:15", "11:45"), True),
    ],
    ids=[
        "both before",
        "before, one after the other",
        "both after",
        "the same time twice",
        "the clock has caught up",
        "one began before and ended after the step, the other began meanwhile",
        "one began before and ended after the step, then the other began",
        "long before",
        "long after",
    ],
)
def test_only_what_overlaps_on_any_reading_counts(one: Span, other: Span, overlaps: bool) -> None:
    assert overlap([STEP], one, other, SLACK) is overlaps
    assert overlap([STEP], other, one, SLACK) is overlaps


def test_without_a_step_times_are_what_they_are() -> None:
    one, other = span("a50", "09:30", "09:40"), span("a150", "09:35", "09:45")
    assert overlap([], one, other, SLACK)
    assert not shown_before([], one, at("09:35"))


def test_a_run_that_was_under_way_may_lie_on_either_side() -> None:
    """Nobody can tell whether it began before the step, so it proves nothing."""
    under_way, later = span("a100", "09:30", "09:40", "09:30"), span("a150", "09:35", "09:45")
    assert not overlap([STEP], under_way, later, SLACK)


@pytest.mark.parametrize(
    ("one", "due", "shown"),
    [
        (span("a100", "09:20", "09:30", "10:05"), "10:05", True),
        (span("a150", "09:20", "09:30"), "10:05", True),
        (span("a150", "09:20", "09:30"), "10:07", False),
        (span("a50", "09:30", "09:40"), "10:05", False),
    ],
    ids=["queued before", "waited before", "not shown yet", "long before the step"],
)
def test_a_due_time_that_the_clock_had_shown_before(one: Span, due: str, shown: bool) -> None:
    assert shown_before([STEP], one, at(due)) is shown


def test_a_clock_that_steps_twice() -> None:
    again = ClockStep(at("10:30"), at("09:42"), at("09:43"), place=200, active=frozenset())
    steps = [STEP, again]
    assert not overlap(steps, span("a120", "09:50", "09:55"), span("a220", "09:52", "09:57"), SLACK)
    assert overlap(steps, span("a220", "09:50", "09:55"), span("a221", "09:52", "09:57"), SLACK)
    assert [repeated(steps, at(text)) for text in ("09:00", "09:30", "10:20", "10:40")] == [
        False,
        True,
        True,
        False,
    ]


def test_it_is_told_in_words() -> None:
    assert str(STEP) == "the database clock stepped back by 47m before 2026-01-05T09:19:00Z"
