"""The pure part of explanations: how times read, and what each reason says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.explain.skips import Outage, Skipped, skip_text
from duebook.explain.words import Clock, length_text
from duebook.model.definition import load_spec
from duebook.model.plan import Reason
from duebook.store.values import LedgerEntry
from duebook.triggers.cron import Cron

DUE = datetime(2026, 1, 6, 3, 14, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SPEC = load_spec({"trigger": {"cron": "14 * * * *"}, "target": "job", "overlap": "latest"}, "job")
RUN = "01a1de90-53bb-7563-b7d3-315e18d1240a"


def text(reason: str, facts: dict[str, Any], tz: str = "UTC", **more: Any) -> str:
    entry = LedgerEntry(DUE, DUE, 1, True, "skipped", reason, facts, DUE, 1)
    return skip_text(Skipped(entry, DUE, SPEC, **more), Clock(tz, DUE))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "less than 1 s"),
        (3, "3 s"),
        (60, "1 min"),
        (90, "90 s"),
        (74 * 60, "74 min"),
        (3 * 3600, "3 h"),
        (3 * 3600 + 28 * 60 + 20, "3 h 28 min"),
        (86_400 * 2, "2 d"),
        (86_400 * 3 + 3 * 3600, "3 d 3 h"),
    ],
)
def test_lengths_read_as_people_say_them(seconds: float, words: str) -> None:
    assert length_text(timedelta(seconds=seconds)) == words


def test_times_have_the_zone_and_the_date_only_of_another_day() -> None:
    clock = Clock("Europe/Brussels", DUE)
    assert clock.time(DUE) == "04:14"
    assert clock.time(DUE + timedelta(seconds=3)) == "04:14:03"
    assert clock.time(DUE - timedelta(hours=5)) == "2026-01-05 23:14"
    assert clock.full(DUE) == "Tue 2026-01-06 04:14 (Europe/Brussels)"


def test_a_range_that_follows_a_long_run() -> None:
    facts = {"run": RUN, "since": "2026-01-06T02:00:00Z"}
    assert text("overlap", facts) == (
        "skipped: run 01a1de90-53bb was still active, since 02:00, for 74 min"
    )
    assert text("overlap", facts, "Europe/Brussels") == (
        "skipped: run 01a1de90-53bb was still active, since 03:00, for 74 min"
    )


def test_an_outage_is_told_in_minutes_unless_it_was_short() -> None:
    outage = Outage(DUE - 62 * MINUTE - timedelta(seconds=9), DUE + 86 * MINUTE)
    facts = {"into": "2026-01-06T04:14:00Z"}
    assert text("coalesced", facts, outage=outage, into_fired=True) == (
        "missed: no scheduler was running from 02:11 to 04:40; catchup=one fired 04:14 instead"
    )
    short = Outage(DUE - timedelta(seconds=9), DUE + MINUTE)
    assert "from 03:13:51 to 03:15; catchup=one kept 04:14" in text(
        "coalesced", facts, outage=short
    )


@pytest.mark.parametrize(
    "reason", [reason for reason in Reason if reason not in (Reason.PACE, Reason.UNATTENDED)]
)
def test_every_reason_has_a_sentence_even_without_facts(reason: Reason) -> None:
    said = text(reason, {})
    assert said.split(":")[0] in ("skipped", "missed", "excluded")
    assert said != f"skipped: {reason}", "more than its code"
    assert "None" not in said


def test_a_reason_of_a_newer_version_is_shown_as_it_is() -> None:
    assert text("moon_phase", {}) == "skipped: moon_phase"


@pytest.mark.parametrize(
    ("expression", "wall", "why"),
    [
        ("0 9 * 3 *", "2026-01-03 09:00", "the month field excludes January"),
        ("0 9 15 * *", "2026-01-03 09:00", "the day-of-month field excludes 3"),
        ("0 9 * * 1-5", "2026-01-03 09:00", "the day-of-week field excludes Saturday"),
        (
            "0 9 15 * 1",
            "2026-01-03 09:00",
            "the day-of-month and day-of-week fields exclude Saturday 3 January",
        ),
        ("0 9 15 * 6", "2026-01-03 09:00", None),
        ("0 9 3 * 1", "2026-01-03 09:00", None),
        ("0 9 * * MON#2", "2026-01-05 09:00", "the day-of-week field excludes Monday 5 January"),
        ("0 9 L * *", "2026-01-30 09:00", "the day-of-month field excludes 30"),
        ("0 9 * * *", "2026-01-03 10:00", "the hour field excludes 10"),
        ("0 9 * * *", "2026-01-03 09:01", "the minute field excludes 1"),
        ("30 0 9 * * *", "2026-01-03 09:00", "the second field excludes 0"),
    ],
)
def test_the_first_field_that_excludes_a_wall_time_is_named(
    expression: str, wall: str, why: str | None
) -> None:
    moment = datetime.fromisoformat(wall)
    assert Cron(expression).why_not(moment) == why
    due = Cron(expression).next_after(moment.replace(tzinfo=UTC) - timedelta(seconds=1))
    assert (due == moment.replace(tzinfo=UTC)) == (why is None), "as the evaluator has it"
