"""advance(flow, standing, now): which steps start, which never will, and how a flow ends; pure.

A flow goes through four phases: its preconditions, its `init` handler, its steps, and the handlers
that run at its end. Attempts and their delays are handled within a run: a step that waits for its
next attempt is active.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from duebook.model.flow import CHECK, COMPUTE, handler_name
from duebook.model.flow_run import Advance, FlowEnd, Skip, StepState
from duebook.model.run import DONE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.model.flow import Event, Flow, Step
    from duebook.model.flow_run import SkipReason, Standing, StopReason

    _Permission = Literal["go", "wait"] | Skip

__all__ = ["advance", "blocked_by", "flow_status", "is_continued", "is_warning"]

_HANDLER: Final[dict[str, Event]] = {
    "succeeded": "success",
    "partial": "success",
    "failed": "failure",
    "cancelled": "abort",
}
_MAIL: Final[dict[str, Event]] = {
    "succeeded": "success_mail",
    "partial": "success_mail",
    "failed": "failure_mail",
}
_INIT: Final = handler_name("init")


def advance(flow: Flow, standing: Standing, now: datetime) -> Advance:
    """What to do now. Once that is done, calling this again returns nothing new."""
    states, begins_at = standing.states, standing.begun_at + flow.delay
    deadline = None if flow.policies.timeout is None else begins_at + flow.policies.timeout
    is_late = deadline is not None and now >= deadline
    stop: StopReason | None = (
        "flow_cancelled" if standing.stop_asked else "flow_timeout" if is_late else None
    )
    if stop is None and now < begins_at:
        return Advance(wake_at=begins_at)
    if stop is None and (opening := _opening(flow, states)) is not None:
        return replace(opening, wake_at=deadline)
    work, known = _work(flow, states, stop)
    if work.start or any(state.is_active for state in _working(flow, states).values()):
        return replace(work, wake_at=None if stop else deadline)
    return replace(_ending(flow, known), skip=work.skip)


def _opening(flow: Flow, states: Mapping[str, StepState]) -> Advance | None:
    """What to do before the first step; None when the opening is over."""
    names = [COMPUTE] if flow.computed else []
    names += [CHECK] if flow.preconditions else []
    names += [_INIT] if flow.handler("init") else []
    for name in names:
        state = states.get(name)
        if state is None:
            return Advance(start=(name,))
        if state.is_active:
            return Advance()
        if _is_lost(name, state):
            return None
    return None


def _is_lost(name: str, state: StepState) -> bool:
    """Whether this part of the opening keeps all steps from running."""
    if name in (CHECK, COMPUTE):
        return state.status != "succeeded"
    return state.status in ("failed", "cancelled")


def _working(flow: Flow, states: Mapping[str, StepState]) -> dict[str, StepState]:
    """The states of everything except the handlers at the end."""
    names = (COMPUTE, CHECK, _INIT, *(step.name for step in flow.steps))
    return {name: states[name] for name in names if name in states}


def _work(
    flow: Flow, states: Mapping[str, StepState], stop: StopReason | None
) -> tuple[Advance, dict[str, StepState]]:
    """What to do with the steps, and every state once it is done."""
    known, skips, ready = dict(states), list[Skip](), list[str]()
    steps = {step.name: step for step in flow.steps}
    reason = stop or _opening_failed(flow, states)
    for step in flow.steps:
        if step.name in known:
            continue
        found = Skip(step.name, reason) if reason else _permission(steps, step, known)
        if isinstance(found, Skip):
            skips.append(found)
            known[step.name] = StepState("skipped", found.reason)
        elif found == "go":
            ready.append(step.name)
    active = [name for name, state in _working(flow, states).items() if state.is_active]
    room = len(ready)
    if flow.max_active_steps is not None:
        room = max(flow.max_active_steps - len(active), 0)
    cancel = tuple(active) if stop else ()
    return Advance(tuple(ready[:room]), tuple(skips), cancel, stop if cancel else None), known


def _opening_failed(flow: Flow, states: Mapping[str, StepState]) -> SkipReason | None:
    check, init = states.get(CHECK), states.get(_INIT)
    values = states.get(COMPUTE)
    if values and not values.is_active and _is_lost(COMPUTE, values):
        return "values_failed"
    if flow.preconditions and check and not check.is_active and _is_lost(CHECK, check):
        return "precondition"
    if init and not init.is_active and _is_lost(_INIT, init):
        return "init_failed"
    return None


def _permission(
    steps: Mapping[str, Step], step: Step, known: Mapping[str, StepState]
) -> _Permission:
    """Whether the steps before this one let it run.

    The result does not depend on the order in which they end: a failure outweighs a skip, so a skip
    waits for steps that may still fail.
    """
    verdicts = [_verdict(steps[name], known.get(name)) for name in step.depends]
    if "upstream_failed" in verdicts:
        return Skip(step.name, "upstream_failed")
    if "wait" in verdicts:
        return "wait"
    return Skip(step.name, "upstream_skipped") if "upstream_skipped" in verdicts else "go"


def blocked_by(flow: Flow, name: str, states: Mapping[str, StepState]) -> str | None:
    """The earliest step that will cause this one to be skipped; None when it may still run."""
    steps = {step.name: step for step in flow.steps}
    _, known = _work(flow, states, None)
    obstacle, at = None, steps[name]
    while found := [
        step
        for step in map(steps.__getitem__, at.depends)
        if _verdict(step, known.get(step.name)) not in ("go", "wait")
    ]:
        at = found[0]
        obstacle = at.name
    return obstacle


def _verdict(step: Step, state: StepState | None) -> str:
    """What the state of an earlier step means for a step after it."""
    if state is None or state.is_active:
        return "wait"
    if state.status in DONE:
        return "go"
    if state.status == "skipped":
        if state.reason == "upstream_failed":
            return "upstream_failed"
        return "go" if step.continue_on.skipped else "upstream_skipped"
    return "go" if is_continued(step, state) else "upstream_failed"


def is_continued(step: Step, state: StepState) -> bool:
    """Whether the steps after a failed step run anyway."""
    on = step.continue_on
    return on.failure or state.exit_code in on.exit_codes or (bool(on.output) and state.matched)


def flow_status(flow: Flow, states: Mapping[str, StepState]) -> FlowEnd:
    """How a flow ends, once all of its steps have ended; ignores the handlers at the end."""
    stopped = {
        states[step.name].reason
        for step in flow.steps
        if states[step.name].status in ("skipped", "cancelled")
    }
    openings = (COMPUTE, CHECK, _INIT)
    failed = [name for name in openings if name in states and _is_failed(states[name])]
    warnings = []
    for step in flow.steps:
        state = states[step.name]
        if _is_failed(state) and not is_continued(step, state):
            failed.append(step.name)
        elif is_warning(step, state):
            warnings.append(step.name)
    if "flow_cancelled" in stopped:
        return FlowEnd("cancelled", "cancelled", (), tuple(warnings))
    if "flow_timeout" in stopped:
        return FlowEnd("failed", "timeout", tuple(failed), tuple(warnings))
    if CHECK in states and states[CHECK].status == "skipped":
        return FlowEnd("cancelled", "precondition")
    if failed:
        return FlowEnd("failed", "step", tuple(failed), tuple(warnings))
    if not warnings:
        return FlowEnd("succeeded")
    if not any(_did_its_work(step, states[step.name]) for step in flow.steps):
        return FlowEnd("failed", "step", tuple(warnings), tuple(warnings))
    return FlowEnd("partial", "step", (), tuple(warnings))


def is_warning(step: Step, state: StepState) -> bool:
    """Whether a step did not do all of its work, but the steps after it run anyway."""
    if state.status == "partial":
        return True
    return _is_failed(state) and is_continued(step, state) and not step.continue_on.mark_success


def _did_its_work(step: Step, state: StepState) -> bool:
    return state.status in DONE or (_is_failed(state) and step.continue_on.mark_success)


def _is_failed(state: StepState) -> bool:
    """A step that was cancelled on its own did not do its work either."""
    return state.status in ("failed", "cancelled")


def _ending(flow: Flow, states: Mapping[str, StepState]) -> Advance:
    """Run the handlers at the end one after the other, send the mail about how they left the flow,
    then end it."""
    end = flow_status(flow, states)
    if end.reason == "precondition":
        return Advance(end=end)
    events: tuple[Event, ...] = (_HANDLER[end.status], "exit") if _has_values(flow, states) else ()
    for event in events:
        if (waits := _running(flow, event, states)) is not None:
            return waits
        end = _after(end, event, states)
    if (mail := _MAIL.get(end.status)) is not None:
        if (waits := _running(flow, mail, states)) is not None:
            return waits
        end = _after(end, mail, states)
    return Advance(end=end)


def _has_values(flow: Flow, states: Mapping[str, StepState]) -> bool:
    """Whether the commands in params and env have been executed; without them, handlers would find
    empty values."""
    return not flow.computed or (COMPUTE in states and states[COMPUTE].status in DONE)


def _running(flow: Flow, event: Event, states: Mapping[str, StepState]) -> Advance | None:
    """What to do until a handler has ended; None when it has, or there is none."""
    name = handler_name(event)
    state = states.get(name)
    if flow.handler(event) is None or not (state is None or state.is_active):
        return None
    return Advance(start=(name,)) if state is None else Advance()


def _after(end: FlowEnd, event: Event, states: Mapping[str, StepState]) -> FlowEnd:
    """How the flow ends after a handler, which has ended."""
    name = handler_name(event)
    if name not in states or not _is_failed(states[name]):
        return end
    return FlowEnd("failed", "handler", (*end.failed, name), end.warnings)
