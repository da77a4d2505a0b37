"""What users and schedules do to runs of flows: retry, run again, stop, restart; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from duebook.errors import Conflict, NotFound, shorten
from duebook.flows.advance import blocked_by, is_continued, is_warning
from duebook.flows.graph import after
from duebook.flows.problems import did_you_mean
from duebook.model.flow import CHECK, COMPUTE, HANDLED, handler_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.model.flow import Flow, Step
    from duebook.model.flow_run import StepState

__all__ = [
    "RestartStep",
    "again",
    "from_step",
    "restart_step",
    "retried",
    "starts_at",
]

_INIT: Final = handler_name("init")
_ENDINGS: Final = frozenset(handler_name(event) for event in HANDLED if event != "init")
_OF_THE_FLOW: Final = ("init_failed", "values_failed", "flow_cancelled", "flow_timeout")
"""Why steps end or never start because the whole flow ends."""


def retried(flow: Flow, states: Mapping[str, StepState]) -> frozenset[str]:
    """The steps to start again when a run is retried from where it failed.

    Steps that succeeded, failed but let the flow continue, or did not meet their conditions keep
    their state. If nothing else failed, the steps that let the flow continue are started again.
    Raises Conflict while any step is active, or when nothing failed.
    """
    _refuse_active(states)
    dropped = _lost_openings(states) | _without_their_turn(flow, states)
    dropped |= {step.name for step in flow.steps if not _stays(step, states.get(step.name))}
    endings = _ENDINGS & set(states)
    if not dropped and not any(_failed(states[name]) for name in endings):
        dropped = _continued_over(flow, states)
    if not dropped and not any(_failed(states[name]) for name in endings):
        raise Conflict(f'flow "{flow.name}" has no failed step; start it again instead')
    return frozenset(dropped | endings)


def again(flow: Flow, states: Mapping[str, StepState], step: str) -> frozenset[str]:
    """The steps to start again when a run is repeated from one step on: that step, all steps after
    it, and the steps that never had their turn, with those that should have come before them.

    Raises NotFound for a step that the flow does not have, and Conflict while any step is active,
    or when the given step could not run.
    """
    repeated = from_step(flow, step)
    _refuse_active(states)
    if CHECK in states and states[CHECK].status == "skipped":
        raise Conflict(f'the conditions of flow "{flow.name}" were not met; start it again instead')
    dropped = repeated | _lost_openings(states) | _without_their_turn(flow, states)
    left = {name: state for name, state in states.items() if name not in dropped}
    if (obstacle := blocked_by(flow, step, left)) is not None:
        status = left[obstacle].status
        how = status if status == "failed" else f"was {status}"
        raise Conflict(
            f'step "{step}" cannot run: "{obstacle}" before it {how}; '
            "retry from that step, or leave the step out to retry where the flow failed"
        )
    return frozenset(dropped | (_ENDINGS & set(states)))


def from_step(flow: Flow, step: str) -> frozenset[str]:
    """A step and all steps after it; raises NotFound for a step that the flow does not have."""
    graph = {each.name: each.depends for each in flow.steps}
    if step not in graph:
        hint = did_you_mean(step, graph) or f"it has {shorten(', '.join(graph), 200)}"
        raise NotFound(f'flow "{flow.name}" has no step "{shorten(step)}"; {hint}')
    return after(graph, [step]) | {step}


def _lost_openings(states: Mapping[str, StepState]) -> set[str]:
    openings = (COMPUTE, CHECK, _INIT)
    return {name for name in openings if name in states and _failed(states[name])}


def _without_their_turn(flow: Flow, states: Mapping[str, StepState]) -> set[str]:
    """Steps that ended because of the whole flow, and not because of the steps before them."""
    if CHECK in states and _failed(states[CHECK]):
        return {step.name for step in flow.steps}
    return {
        step.name
        for step in flow.steps
        if step.name not in states or states[step.name].reason in _OF_THE_FLOW
    }


def _continued_over(flow: Flow, states: Mapping[str, StepState]) -> set[str]:
    """Steps whose work a run did not do, but that let it continue; it ended partial, or failed
    because no step did its work."""
    return {step.name for step in flow.steps if is_warning(step, states[step.name])}


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


def starts_at(flow: Flow, moment: datetime) -> bool:
    """Whether the flow's schedule starts it at this instant."""
    before = moment - timedelta(microseconds=1)
    return any(trigger.next_after(before) == moment for trigger in flow.start)


RestartStep = Literal["stop", "wait", "start"]


def restart_step(
    flow: Flow, is_active: bool, ended_at: datetime | None, now: datetime
) -> tuple[RestartStep, datetime | None]:
    """The next action of a restart, and until when it waits.

    `ended_at` is the end of the run that the restart stopped; None when no run had to stop.
    """
    if is_active:
        return "stop", None
    if ended_at is not None and now < ended_at + flow.restart_wait:
        return "wait", ended_at + flow.restart_wait
    return "start", None
