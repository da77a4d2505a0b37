"""Explains how far a run of a flow has come, and what each of its steps waits for; pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Final, Literal

from duebook.errors import shorten
from duebook.explain.runs import explain_run
from duebook.explain.words import Clock, length_text, short_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Id, Name, Shown, shown
from duebook.model.flow import CHECK, COMPUTE, handler_name
from duebook.model.flow_target import FLOW_QUEUE, HUMAN_QUEUE
from duebook.model.flow_view import lacking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.flow import Flow, Step
    from duebook.model.node import LiveNode
    from duebook.model.queue import QueueLoad
    from duebook.model.run import Run

__all__ = [
    "FlowExplanation",
    "FlowStanding",
    "StepExplanation",
    "explain_flow",
]

_INIT: Final = handler_name("init")


@shown()
@dataclass(frozen=True, slots=True)
class StepExplanation:
    """What happened to a step, or what it is waiting for."""

    step: str
    verdict: Annotated[
        str, Shown(json=Literal["ran", "running", "queued", "waiting", "cancelled", "skipped"])
    ]
    text: Annotated[str, Shown("What happened to it, or what it is waiting for.")]
    run_id: Id | None = None


@shown()
@dataclass(frozen=True, slots=True)
class FlowExplanation:
    """The progress of a flow run."""

    flow: Name
    run_id: Id
    verdict: Annotated[str, Shown(json=Literal["ran", "running", "queued", "cancelled"])]
    text: Annotated[str, Shown("The explanation, in a sentence.")]
    steps: tuple[StepExplanation, ...]
    tz: str = "UTC"
    """the zone of the times in the texts"""


@dataclass(frozen=True, slots=True)
class FlowStanding:
    """All that is known about a run of a flow."""

    flow: Flow
    run: Run
    steps: Mapping[str, Run]
    """by name; those that have started or never will"""
    held: Mapping[str, str]
    """why it, or flows that it called, do not start, by run"""
    nodes: Sequence[LiveNode]
    queues: Mapping[str, QueueLoad]
    now: datetime
    tz: str | None = None
    """the zone of times; None: that of the flow's schedule"""

    @property
    def clock(self) -> Clock:
        own = next((trigger.tz for trigger in self.flow.start if hasattr(trigger, "tz")), "UTC")
        return Clock(self.tz or own, self.now)

    @property
    def scheduler(self) -> str:
        lives = any("scheduler" in node.roles for node in self.nodes)
        return "a scheduler is about to plan it" if lives else "no scheduler is running"


def explain_flow(at: FlowStanding, only: str | None = None) -> FlowExplanation:
    """The run, and its steps in the order of the file; handlers only once they have started."""
    verdict, text = _of_run(at)
    names = [name for name in (COMPUTE, CHECK) if name in at.steps]
    names += [name for name in (_INIT,) if name in at.steps]
    names += [step.name for step in at.flow.steps]
    names += [s.name for _, s in at.flow.handlers if s.name in at.steps and s.name != _INIT]
    told = tuple(_of_step(at, name) for name in names if only in (None, name))
    return FlowExplanation(at.flow.name, at.run.id, verdict, text, told, at.clock.tz)


def _of_run(at: FlowStanding) -> tuple[str, str]:
    run, clock = at.run, at.clock
    since = run.started_at or run.created_at
    length = f"since {clock.time(since)}, for {length_text(at.now - since)}"
    if run.status == "running":
        stop = ", and asked to stop" if run.cancel_requested_at else ""
        return "running", f"running {length}{stop}"
    if run.status == "queued" and run.ready_at <= at.now:
        return "queued", f"queued {length}: {at.held.get(run.id, at.scheduler)}"
    told = explain_run(run, clock, at.now)
    return told.verdict, told.text


def _of_step(at: FlowStanding, name: str) -> StepExplanation:
    run = at.steps.get(name)
    if run is None:
        return StepExplanation(name, "waiting", _not_begun(at, at.flow.step(name)))
    if run.state == "skipped":
        return StepExplanation(name, "skipped", f"skipped: {run.why}", run.id)
    if run.queue == HUMAN_QUEUE:
        return _of_human(at, name, run)
    if run.status == "queued" and run.ready_at <= at.now:
        since = f"since {at.clock.time(run.ready_at)}, for {length_text(at.now - run.ready_at)}"
        if run.attempt > run.failures:  # it kept its place, but did not wait all the time
            since = f"again, for attempt {run.attempt + 1}"
        return StepExplanation(name, "queued", f"queued {since}: {_held(at, name, run)}", run.id)
    if run.status == "running" and run.queue == FLOW_QUEUE:
        since = at.clock.time(run.started_at or run.created_at)
        told = (
            f"has been running flow {run.flow} since {since}; see duebook explain "
            f"{short_id(run.id)}"
        )
        return StepExplanation(name, "running", told, run.id)
    found = explain_run(run, at.clock, at.now)
    failed = run.status == "queued" and run.error
    text = f"{found.text}: {shorten(run.error or '', 200)}" if failed else found.text
    return StepExplanation(name, found.verdict, text, run.id)


def _of_human(at: FlowStanding, name: str, run: Run) -> StepExplanation:
    if run.is_active:
        length = length_text(at.now - run.ready_at)
        told = f"waiting since {at.clock.time(run.ready_at)}, for {length}: {run.progress_text}"
        if run.expires_at is not None:
            told = f"{told}; until {at.clock.time(run.expires_at)}"
        how = f"duebook flow approve {short_id(at.run.id)} {shlex.quote(name)}, or reject"
        return StepExplanation(name, "waiting", f"{told}; to answer: {how}", run.id)
    if run.status == "cancelled":
        return StepExplanation(name, "cancelled", f"cancelled: {run.why}", run.id)
    answer = run.output if isinstance(run.output, dict) else {}
    when = at.clock.time(run.finished_at or at.now)
    note = f": {answer['comment']}" if answer.get("comment") else ""
    told = f"{answer.get('decision')} by {answer.get('by')} at {when}{note}"
    return StepExplanation(name, "ran", told, run.id)


def _not_begun(at: FlowStanding, step: Step) -> str:
    """Why a step has no run yet."""
    if not at.run.is_active:
        return "never started: the run has finished"
    if at.run.status == "queued":
        return "waits for the run to start"
    begins_at = (at.run.started_at or at.run.created_at) + at.flow.delay
    if at.now < begins_at:
        return f"waits until {at.clock.time(begins_at)}, because of delay_sec"
    openings = {
        COMPUTE: "the commands in params and env of the flow",
        CHECK: "the preconditions of the flow",
        _INIT: "the handler init",
    }
    for name, words in openings.items():
        if name in at.steps and at.steps[name].is_active:
            return f"waits for {words} ({at.steps[name].status})"
    if pending := [name for name in step.depends if _is_pending(at, name)]:
        return f"waits for {', '.join(f'{name} ({_state(at, name)})' for name in pending)}"
    busy = [s.name for s in at.flow.steps if s.name in at.steps and _is_pending(at, s.name)]
    most = at.flow.max_active_steps
    if most is not None and len(busy) >= most:
        return f"waits for one of {', '.join(busy)} to finish: max_active_steps is {most}"
    return f"can start: {at.scheduler}"


def _is_pending(at: FlowStanding, name: str) -> bool:
    return name not in at.steps or at.steps[name].is_active


def _state(at: FlowStanding, name: str) -> str:
    return "not started" if name not in at.steps else at.steps[name].status


def _held(at: FlowStanding, name: str, run: Run) -> str:
    """Why a step that is ready is not running."""
    if run.queue == FLOW_QUEUE and at.run.status == "queued":
        return "it continues when the run starts"
    if run.queue == FLOW_QUEUE:
        return at.held.get(run.id, at.scheduler)
    needs = {} if name in (CHECK, COMPUTE) else dict(at.flow.step(name).workers)
    if (told := lacking(run.namespace, run.task, needs, at.nodes)) is not None:
        return told
    workers = [node for node in at.nodes if node.serves(run.namespace)]
    if not any(run.queue in node.queues for node in workers):
        return f'no live worker serves queue "{run.queue}"'
    load = at.queues.get(run.queue)
    if load is not None and load.queue.concurrency is not None:
        most = load.queue.concurrency
        if not most:
            return f'queue "{run.queue}" is on hold: its concurrency is 0'
        if load.running >= most:
            return (
                f'queue "{run.queue}" runs at most {most:,} at a time, and {load.running:,} are '
                "running"
            )
    if load is not None and load.queue.rate is not None:
        return f'no worker has started it yet; queue "{run.queue}" starts at most {load.queue.rate}'
    return "no worker has started it yet"
