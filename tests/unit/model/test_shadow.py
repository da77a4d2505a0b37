"""Shadow mode as values: spans from switches, and the comparison with another scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from duebook.model.shadow import (
    ShadowRun,
    ShadowSwitch,
    compare,
    in_force,
    shadow_spans,
    superseded,
)

START = datetime(2026, 3, 1, tzinfo=UTC)
LABELS: list[dict[str, str]] = [{}, {"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}]
switches = st.lists(
    st.builds(
        lambda minute, shadow, schedule, labels: ShadowSwitch(
            "default", at_minute(minute), shadow, schedule, labels, START, ""
        ),
        st.integers(0, 20),
        st.booleans(),
        st.sampled_from(["", "job", "other"]),
        st.sampled_from(LABELS),
    ),
    max_size=8,
).map(lambda found: sorted(found, key=lambda switch: switch.at))


def at_minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def mode_at(found: list[ShadowSwitch], labels: dict[str, str], moment: datetime) -> bool:
    """By the definition: the latest that selects the schedule decides."""
    said = [s.shadow for s in found if s.selects("job", labels) and s.at <= moment]
    return bool(said) and said[-1]


@given(switches, st.sampled_from(LABELS))
def test_the_latest_switch_that_selects_a_schedule_counts(
    found: list[ShadowSwitch], labels: dict[str, str]
) -> None:
    spans = shadow_spans(found, "job", labels)
    for minute in range(22):
        moment = at_minute(minute)
        assert any(span.covers(moment) for span in spans) == mode_at(found, labels, moment)


@given(switches, st.sampled_from(LABELS), st.integers(0, 20))
def test_forgetting_what_is_superseded_changes_nothing_later(
    found: list[ShadowSwitch], labels: dict[str, str], minute: int
) -> None:
    old = set(superseded(found, at_minute(minute)))
    kept = [switch for place, switch in enumerate(found) if place not in old]
    for later in range(minute, 22):
        moment = at_minute(later)
        assert mode_at(kept, labels, moment) == mode_at(found, labels, moment)
    begun = [switch for switch in kept if switch.at <= at_minute(minute)]
    assert in_force(found, at_minute(minute)) == begun


def test_times_are_paired_in_order_within_the_tolerance() -> None:
    ours = [
        ShadowRun("job", at_minute(n), at_minute(n), "schedule", at_minute(n)) for n in (0, 10, 20)
    ]
    theirs = [
        ("job", at_minute(0) + timedelta(seconds=20)),
        ("job", at_minute(10) + timedelta(seconds=90)),
        ("cleanup", at_minute(5)),
    ]
    found = compare(ours, theirs, timedelta(minutes=1))
    assert [(one.schedule, one.verdict) for one in found] == [
        ("job", "both"),
        ("cleanup", "other"),
        ("job", "duebook"),
        ("job", "other"),
        ("job", "duebook"),
    ]
