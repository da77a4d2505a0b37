"""A flow as shown to people: what it does, where it comes from and its last result."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from duebook.lazy_dataclasses import dataclass
from duebook.model.celery_target import unknown_task
from duebook.model.codec import Name, Shown, shown
from duebook.model.run import Run
from duebook.model.secret import hide_in_lines, is_secret, show_payload
from duebook.model.serving import unserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duebook.model.flow import Flow
    from duebook.model.node import LiveNode
    from duebook.triggers import Trigger

__all__ = ["FlowView", "flow_view", "lacking", "waiting_for"]


@shown("Flow")
@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow, by its last valid revision."""

    name: Name
    place: Annotated[str, Shown("The directory's name, and the path in it.")]
    digest: str
    updated_at: datetime
    description: str = ""
    labels: dict[str, str] | None = None
    starts: Annotated[str | None, Shown("When it starts automatically, in words.")] = None
    params: tuple[dict[str, Any], ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    problem: Annotated[
        str | None, Shown("The problem in its file; the last valid version stays in use.")
    ] = None
    last_run: Run | None = None
    waits: Annotated[
        tuple[str, ...],
        Shown("Why that run or its steps are waiting: for other runs, or for a worker."),
    ] = ()
    stops: Annotated[str | None, Shown("When it is stopped, if it is running.")] = None
    """in words"""
    restarts: Annotated[str | None, Shown("When it is stopped and started again.")] = None
    stop_grace: Annotated[
        timedelta | None, Shown("How long its commands have to stop, if its file says so.")
    ] = None
    unread: Annotated[
        str | None,
        Shown("Why its due times are waiting: no node reads the directory of its file."),
    ] = None


def waiting_for(
    step: str,
    namespace: str,
    task: str | None,
    needs: Mapping[str, str],
    nodes: Iterable[LiveNode],
) -> str | None:
    """Why no live worker can run a step, as a sentence about it; None if one can."""
    told = lacking(namespace, task, needs, nodes)
    return None if told is None else f'step "{step}": {told}'


def lacking(
    namespace: str, task: str | None, needs: Mapping[str, str], nodes: Iterable[LiveNode]
) -> str | None:
    """What a run needs that no live worker offers; None if one does."""
    living = [node for node in nodes if node.works]
    if not living:
        return "no worker is running"
    workers = [node for node in living if node.serves(namespace)]
    if not workers:
        return unserved(namespace, [node.namespaces for node in living])
    wanted = ", ".join(f"{name}={value}" for name, value in sorted(needs.items()))
    fitting = [node for node in workers if needs.items() <= node.labels.items()]
    if not fitting:
        return f"it needs a worker with {wanted}, and no live worker has them"
    if task is not None and not any(task in node.tasks for node in fitting):
        beside = f" with {wanted}" if needs else ""
        return f"no live worker{beside} {unknown_task(task)}"
    return None


def flow_view(
    flow: Flow,
    place: str,
    digest: str,
    updated_at: datetime,
    problem: str | None = None,
    last_run: Run | None = None,
) -> FlowView:
    return FlowView(
        flow.name,
        place,
        digest,
        updated_at,
        flow.policies.description,
        dict(flow.policies.labels),
        _told(flow.start),
        tuple(
            {
                "name": param.name,
                "default": show_payload({param.name: param.default})[param.name],
                "kind": param.kind,
                "choices": [] if is_secret(param.name) else list(param.choices),
                "description": param.description,
            }
            for param in flow.params
        ),
        tuple(
            {
                "name": step.name,
                "depends": list(step.depends),
                "description": step.description,
                "runs": "\n".join(hide_in_lines(step.written.split("\n"))),
                **({"stop_signal": step.stop_signal} if step.stop_signal else {}),
            }
            for step in flow.all_steps()
        ),
        problem,
        last_run,
        stops=_told(flow.stop),
        restarts=_told(flow.restart),
        stop_grace=flow.stop_grace,
    )


def _told(triggers: Iterable[Trigger]) -> str | None:
    return ", ".join(trigger.describe() for trigger in triggers) or None
