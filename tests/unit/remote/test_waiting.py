"""What a client that waits for a run does next: how long it asks the server to wait, and when it
gives up."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Unavailable, WaitTimeout
from duebook.model.codec import encode
from duebook.model.run import Run
from duebook.remote.waiting import HOLD, PATIENCE, Patience
from tests.support.builders import BEGIN

RUN = Run(
    "01a1de90-53bb-7c3e-8d5f-0123456789ab", "default", None, None, None, None, "enqueue",
    "enqueue", "default", 0, "running", 1, 0, 0, None, BEGIN, BEGIN,
)  # fmt: skip
RUNNING: dict[str, Any] = encode(RUN)
ENDED: dict[str, Any] = encode(RUN._replace(status="succeeded", finished_at=BEGIN))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def busy() -> Unavailable:
    error = Unavailable("no room")
    error.code = "busy"
    return error


def test_a_server_is_asked_to_wait_no_longer_than_there_is_time() -> None:
    clock = Clock()
    patience = Patience(RUN.id, 25, clock)
    assert patience.hold == f"{HOLD:.3f}"
    clock.now += 20
    assert patience.heard(RUNNING) is None
    assert patience.hold == "5.000"
    clock.now += 5
    with pytest.raises(WaitTimeout, match="has not ended within 25s"):
        patience.heard(RUNNING)


def test_a_run_that_has_ended_counts_also_when_the_time_is_up() -> None:
    clock = Clock()
    patience = Patience(RUN.id, 1, clock)
    clock.now += 2
    ended = patience.heard(ENDED)
    assert ended is not None
    assert ended.status == "succeeded"


def test_a_busy_server_is_asked_less_and_less_often() -> None:
    patience = Patience(RUN.id, None, Clock())
    assert [patience.failed(busy()) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    patience.heard(RUNNING)
    assert patience.failed(busy()) == 1.0


def test_a_server_that_was_never_there_is_told_at_once() -> None:
    with pytest.raises(Unavailable):
        Patience(RUN.id, None, Clock()).failed(Unavailable("gone"))


def test_a_server_may_be_gone_for_a_while() -> None:
    clock = Clock()
    patience = Patience(RUN.id, None, clock)
    patience.heard(RUNNING)
    clock.now += PATIENCE
    assert patience.failed(Unavailable("gone")) == 1.0
    clock.now += 1
    with pytest.raises(Unavailable):
        patience.failed(Unavailable("gone"))


def test_nobody_rests_beyond_the_time_there_is() -> None:
    clock = Clock()
    patience = Patience(RUN.id, 3, clock)
    assert patience.failed(busy()) == 1.0
    clock.now += 2.5
    assert patience.failed(busy()) == 0.5
    clock.now += 0.5
    with pytest.raises(WaitTimeout):
        patience.failed(busy())
