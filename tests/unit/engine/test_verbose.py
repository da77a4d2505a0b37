"""The lines of --verbose: every kind of decision, and no more than a line can hold."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duebook.engine.verbose import tell_claims, tell_plans
from duebook.model.plan import Defer, Fire, Plan, Reason, Skip
from duebook.store.sqlite import SqliteStore
from tests.support.builders import MINUTE, VirtualClock, add_schedule, begin, claim, tick

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from duebook.model.plan import Decision

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
log = logging.getLogger("duebook.test_verbose")


def planned(*decisions: Decision) -> Plan:
    return Plan("id", 1, decisions, "active", NOON, None, None)


def test_a_line_tells_schedule_due_time_decision_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger=log.name)
    hour = timedelta(hours=1)
    decisions = (
        Fire(NOON, "schedule", cancels=("other",)),
        Skip(NOON, NOON, 1, True, Reason.OVERLAP),
        Skip(NOON, NOON + hour, 5, False, Reason.COALESCED),
        Defer(NOON, Reason.OVERLAP, NOON + hour),
    )
    tell_plans(log, [planned(*decisions), planned()], {"id": "job"})
    (line,) = caplog.messages
    assert line.removeprefix("planned ").split("; ") == [
        "job 2026-01-01T12:00:00Z: fire (schedule, cancels 1)",
        "job 2026-01-01T12:00:00Z: skip (overlap)",
        "job 2026-01-01T12:00:00Z to 2026-01-01T13:00:00Z: skip 5+ (coalesced)",
        "job 2026-01-01T12:00:00Z: wait until 2026-01-01T13:00:00Z (overlap)",
    ]


def test_a_line_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=log.name)
    tell_plans(log, [planned(Fire(NOON, "schedule")) for _ in range(1_020)], {})
    assert caplog.messages[0].endswith("; and 1,000 more")
    assert caplog.messages[0].count("fire") == 20


def test_a_line_tells_what_was_claimed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=log.name)
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "book.db", clock)
    add_schedule(store, "job")
    clock.advance(MINUTE)
    tick(store)
    caplog.clear()
    claims = claim(store, begin(store), 10)
    store.close()
    tell_claims(log, claims)
    assert caplog.messages == [f"claimed {claims[0].run.id} of job, attempt 1"]


def test_nothing_is_told_unless_somebody_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tell_plans(log, [planned(Fire(NOON, "schedule"))], {})
    assert not caplog.messages
