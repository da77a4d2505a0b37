"""What people and schedules do to runs of flows: retry, run again, stop, restart; pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from duebook.errors import Conflict, NotFound, shorten
from duebook.flows.advance import is_continued
from duebook.flows.graph import after
from duebook.model.flow import CHECK, HANDLED, handler_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.flow import Flow, Step
    from duebook.model.flow_run import StepState
    from duebook.triggers import Trigger

__all__ = [
    "Control",
    "RestartStep",
    "again",
    "due_control",
    "next_control",
    "restart_step",
    "retried",
]

GRACE: Final = timedelta(minutes=1)
"""A stop or restart that nobody saw for longer is over: there is no catching up."""
_INIT: Final = handler_name("init")


def retried(flow: Flow, states: Mapping[str, StepState]) -> frozenset[str]:
    """The steps that begin again when a run is retried from where it failed.

    Those that succeeded, were continued over, or did not meet their conditions stay as they are.
    Raises Conflict while any is active, or when nothing failed.
    """
    _refuse_active(states)
    dropped = {name for name in (CHECK, _INIT) if name in states and _failed(states[name])}
    dropped |= {step.name for step in flow.steps if not _stays(step, states.get(step.name))}
    endings = {handler_name(event) for event in HANDLED if event != "init"} & set(states)
    if not dropped and not any(_failed(states[name]) for name in endings):
        raise Conflict(f'flow "{flow.name}" has no failed step; run it again instead')
    return frozenset(dropped | endings)


def again(flow: Flow, states: Mapping[str, StepState], step: str) -> frozenset[str]:
    """The steps that begin again when a run is repeated from one step on: it and all after it.

    Raises NotFound for a step that the flow does not have, and Conflict while any is active.
    """
    graph = {each.name: each.depends for each in flow.steps}
    if step not in graph:
        raise NotFound(f'flow "{flow.name}" has no step "{shorten(step)}"')
    _refuse_active(states)
    endings = {handler_name(event) for event in HANDLED if event != "init"}
    missing = {name for name in graph if name not in states}
    return frozenset({step} | after(graph, [step]) | missing | (endings & set(states)))


def _stays(step: Step, state: StepState | None) -> bool:
    if state is None:
        return False
    if state.status == "skipped":
        return state.reason == "precondition"
    return not _failed(state) or is_continued(step, state)


def _failed(state: StepState) -> bool:
    return state.status in ("failed", "cancelled")


def _refuse_active(states: Mapping[str, StepState]) -> None:
    for name, state in states.items():
        if state.is_active:
            raise Conflict(f'step "{shorten(name)}" is {state.status}; cancel the run first')


@dataclass(frozen=True, slots=True)
class Control:
    """A stop or restart that is due."""

    command: Literal["stop", "restart"]
    due_at: datetime


def due_control(flow: Flow, since: datetime, now: datetime) -> Control | None:
    """The newest stop or restart after `since` that is due and not yet over.

    Of several only the newest counts, and a restart wins over a stop at the same instant.
    """
    since = max(since, now - GRACE)
    found = [
        *(Control("stop", due_at) for due_at in _newest(flow.stop, since, now)),
        *(Control("restart", due_at) for due_at in _newest(flow.restart, since, now)),
    ]
    return max(found, key=lambda c: (c.due_at, c.command == "restart"), default=None)


def _newest(triggers: Sequence[Trigger], since: datetime, now: datetime) -> list[datetime]:
    found = []
    for trigger in triggers:
        due_at = trigger.previous_before(now + timedelta(microseconds=1))
        if due_at is not None and since < due_at <= now:
            found.append(due_at)
    return found


def next_control(flow: Flow, now: datetime) -> datetime | None:
    """When a stop or restart is due next."""
    found = (trigger.next_after(now) for trigger in (*flow.stop, *flow.restart))
    return min((moment for moment in found if moment is not None), default=None)


RestartStep = Literal["stop", "wait", "start"]


def restart_step(
    flow: Flow, is_active: bool, ended_at: datetime | None, now: datetime
) -> tuple[RestartStep, datetime | None]:
    """What a restart does next, and until when it waits.

    `ended_at` is when the run that it stopped ended; None when there was none to stop.
    """
    if is_active:
        return "stop", None
    if ended_at is not None and now < ended_at + flow.restart_wait:
        return "wait", ended_at + flow.restart_wait
    return "start", None
