"""`signal_on_stop` and `max_clean_up_time_sec` reach the command of a step, or are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.model.flow_view import flow_view
from duebook.model.target import CommandTarget
from tests.unit.flows.dagu_helpers import flow_of, problems_of, rendered

SERVICE = """
maxCleanUpTimeSec: 90
steps:
  - {name: serve, command: ./serve, signalOnStop: SIGINT}
  - {name: old, exec: {command: ./old}, signal_on_stop: SIGTERM}
"""


def test_the_command_of_a_step_has_its_signal_and_the_grace_of_the_flow() -> None:
    flow = flow_of(SERVICE)
    first, second = (rendered(flow, number).target for number in (0, 1))
    assert isinstance(first, CommandTarget)
    assert isinstance(second, CommandTarget)
    grace = timedelta(seconds=90)
    assert (first.stop_signal, first.stop_grace) == ("SIGINT", grace)
    assert (second.stop_signal, second.stop_grace) == (None, grace)


def test_a_flow_without_these_keys_stops_as_before() -> None:
    target = rendered(flow_of("steps: [./serve]")).target
    assert isinstance(target, CommandTarget)
    assert (target.stop_signal, target.stop_grace) == (None, None)


def test_who_looks_at_a_flow_sees_how_it_is_stopped() -> None:
    view = flow_view(flow_of(SERVICE), "a/f.yaml", "0", datetime(2026, 1, 1, tzinfo=UTC))
    assert view.stop_grace == timedelta(seconds=90)
    assert [step.get("stop_signal") for step in view.steps] == ["SIGINT", None]


def test_the_signal_of_the_defaults_is_that_of_commands_only() -> None:
    flow = flow_of("""
defaults: {signal_on_stop: SIGINT}
steps:
  - {name: a, command: ./a}
  - {name: b, command: ./b, signal_on_stop: SIGKILL}
  - {name: c, call: other}
  - {name: d, action: http.request, with: {url: 'https://a.test'}}
handler_on: {exit: ./e}
""")
    found = {step.name: step.stop_signal for step in flow.all_steps()}
    assert found == {
        "a": "SIGINT",
        "b": "SIGKILL",
        "c": None,
        "d": None,
        "handler_on.exit": "SIGINT",
    }


def test_a_task_keeps_its_own_time_and_the_file_is_told() -> None:
    flow = flow_of("max_clean_up_time_sec: 60\nsteps: [{name: a, task: t}, ./b]\n")
    (note,) = flow.notes
    assert note == (
        'step "a" of flow f is a task, which has 5 seconds to stop whatever '
        "max_clean_up_time_sec says"
    )
    assert flow_of("steps: [{name: a, task: t}, ./b]\n").notes == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "steps:\n  - {run: a, signal_on_stop: SIGSTOP}\n",
            "f.yaml:2:30: signal_on_stop SIGSTOP is not one of SIGTERM, SIGINT, ",
        ),
        (
            "steps:\n  - {call: a, signal_on_stop: SIGINT}\n",
            (
                "f.yaml:2:31: signal_on_stop is for steps that run a command; put it on the steps "
                "of that flow"
            ),
        ),
        (
            "steps:\n  - {http: {url: 'https://a.test'}, signal_on_stop: SIGINT}\n",
            "f.yaml:2:53: signal_on_stop is for steps that run a command; remove it",
        ),
        ("max_clean_up_time_sec: -1\nsteps: [a]\n", "f.yaml:1:24: max_clean_up_time_sec -1 "),
        (
            "max_clean_up_time_sec: 90000\nsteps: [a]\n",
            "f.yaml:1:24: max_clean_up_time_sec 90000 is not a whole number from 0 to 86,400",
        ),
        ("max_clean_up_time_sec: 5s\nsteps: [a]\n", "f.yaml:1:24: max_clean_up_time_sec "),
    ],
)
def test_what_cannot_be_done_is_refused_at_its_line(text: str, told: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(told)
