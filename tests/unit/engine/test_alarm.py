"""Alarms, and what is said of an outage."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from duebook.engine.alarm import Alarm
from duebook.engine.outage_log import OutageLog
from duebook.errors import Unavailable
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    import pytest

GONE = Unavailable("cannot reach the database")


def waiting(alarm: Alarm) -> threading.Thread:
    thread = threading.Thread(target=alarm.wait, args=(10 * PATIENCE,), daemon=True)
    thread.start()
    return thread


def test_who_waits_is_woken_by_a_ring() -> None:
    alarm = Alarm()
    thread = waiting(alarm)
    alarm.ring()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_ring_that_nobody_waits_for_counts_once() -> None:
    alarm = Alarm()
    alarm.ring()
    alarm.wait(PATIENCE)
    began = time.monotonic()
    alarm.wait(0.01)
    assert time.monotonic() - began >= 0.01


def test_a_wait_is_shortened_by_who_knows_of_something_earlier() -> None:
    alarm = Alarm()
    thread = waiting(alarm)
    alarm.ring_within(0.01)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    alarm.ring_within(0.01)
    alarm.wait(PATIENCE)


def test_an_outage_is_told_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = OutageLog(lambda: 100.0)
    outage.ended("ticker")
    for who, since in (("ticker", 10.0), ("keeper", 20.0), ("ticker", 30.0)):
        outage.failed(who, GONE, since)
    outage.ended("ticker")
    outage.failed("ticker", GONE, 80.0)
    outage.ended("keeper")
    outage.ended("ticker")
    assert [record.message for record in caplog.records] == [
        "cannot reach the database; retrying until it is available",
        "the database is available again, after 1m30s",
    ]


def test_what_is_waited_for_is_told_anew_when_it_changes_and_in_the_next_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = OutageLog(lambda: 100.0)
    starting = Unavailable("the database is starting up")
    for error in (GONE, GONE, starting, GONE, starting):
        outage.failed("keeper", error, 99.5)
    outage.ended("keeper")
    outage.failed("ticker", GONE, 99.9)  # its step began before the end
    outage.failed("keeper", GONE, 100.5)
    waiting = "; retrying until it is available"
    assert [record.message for record in caplog.records] == [
        f"{GONE}{waiting}",
        f"{starting}{waiting}",
        "the database is available again, after 1s",
        f"{GONE}{waiting}",
    ]
