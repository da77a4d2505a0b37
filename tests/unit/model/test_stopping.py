"""How a command is asked to end: by which signal, and how long it has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duebook.errors import Invalid
from duebook.model.target import CommandTarget, load_target


def test_a_target_says_how_it_is_stopped() -> None:
    form = {"command": ["serve"], "stop_signal": "SIGINT", "stop_grace": "30s"}
    target = load_target(form)
    assert target == CommandTarget(
        ("serve",), stop_signal="SIGINT", stop_grace=timedelta(seconds=30)
    )
    assert target.to_json() == form
    assert load_target({"shell": "a", "stop_signal": None}) == CommandTarget(shell="a")


def test_a_signal_may_be_given_without_sig() -> None:
    target = load_target({"shell": "serve", "stop_signal": "USR1"})
    assert target.to_json() == {"shell": "serve", "stop_signal": "SIGUSR1"}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("stop_signal", "SIGSTOP", "target stop_signal SIGSTOP is not one of SIGTERM, SIGINT, "),
        ("stop_signal", "sigint", "target stop_signal sigint is not one of"),
        ("stop_signal", 2, "target stop_signal 2 is not one of"),
        ("stop_grace", "soon", "target stop_grace soon is not a length of time such as 30s"),
        ("stop_grace", 30, "target stop_grace 30 is not a length of time such as 30s"),
        ("stop_grace", "2d", "target stop_grace 2d is longer than 1 day"),
    ],
)
def test_other_ways_to_stop_are_refused(key: str, value: object, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        load_target({"command": ["serve"], key: value})
