"""How many connections a server has, and how long each may take."""

from __future__ import annotations

import logging

import pytest

from duebook.api import limits
from duebook.api.limits import RESERVED, Limits, Stage, limits_for


@pytest.mark.parametrize(
    ("setting", "allowed", "connections"),
    [
        ("", 20_000, 1_000),
        ("", 1_024, 1_024 - RESERVED),
        ("50", 1_024, 50),
        ("5000", 20_000, 5_000),
        ("", 128, 32),
    ],
)
def test_connections_leave_descriptors_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, setting: str, allowed: int, connections: int
) -> None:
    asked = []

    def allow(number: int) -> int:
        asked.append(number)
        return allowed

    monkeypatch.setattr(limits, "allow_descriptors", allow)
    assert limits_for(setting).connections == connections
    assert asked == [int(setting or 1_000) + RESERVED]


@pytest.mark.parametrize(("connections", "at_once"), [(1_000, 16), (64, 8), (20, 2), (1, 1)])
def test_few_connections_are_accepted_few_at_a_time(connections: int, at_once: int) -> None:
    assert Limits(connections).accepted_at_once == at_once


def test_fewer_connections_than_wanted_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "allow_descriptors", lambda _: 1_024)
    with caplog.at_level(logging.WARNING):
        limits_for("5000")
    assert "instead of 5000" in caplog.text
    assert "ulimit -n" in caplog.text


def test_a_body_may_take_longer_the_more_of_it_arrives() -> None:
    some = Limits(body_within=20, body_rate=10_000)
    assert some.time_in(Stage.BODY, 20) == pytest.approx(20.002)  # a byte a second gains nothing
    assert some.time_in(Stage.BODY, 2_000_000) == 220


def test_only_an_answer_may_take_as_long_as_it_takes() -> None:
    endless = {stage for stage in Stage if Limits().time_in(stage) is None}
    assert endless == {Stage.ANSWER, Stage.UNREAD}
